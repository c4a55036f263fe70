"""FedAdaVR on 5,000 MNIST digits, with Flower."""
