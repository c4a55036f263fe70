"""FedAdaVR with scikit-learn, on Flower."""
