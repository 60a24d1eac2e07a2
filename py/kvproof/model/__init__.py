"""The decoder: plain, cached and tuned, its layers and masks, and the storages of its cache."""
