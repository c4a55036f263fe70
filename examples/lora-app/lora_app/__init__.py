"""LoRA adapters trained with FedAdaVR, on Flower."""
