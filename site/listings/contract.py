import kvproof


class Mine:
    vocab_size = 32000  # token IDs are below
    max_length = 2048  # of the longest text

    # int (B, T) -> logits (B, T, V), without a cache
    def full(self, tokens): ...

    # int (B, C), cache or None -> logits (B, C, V), next cache
    def step(self, tokens, cache): ...


print(kvproof.check(Mine()))
