# model: a LlamaForCausalLM, or any other ...ForCausalLM
mine = kvproof.adapters.transformers(model, "static", max_length=64)
print(kvproof.check(mine))
