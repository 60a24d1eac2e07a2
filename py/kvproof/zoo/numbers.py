"""The right slots and the wrong numbers: mask values, scales, logits of another position."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kvproof.kinds import Kind
from kvproof.model import layers
from kvproof.model.cache import ConcatCache, KVCache
from kvproof.model.cache.quantized import QuantizedArray, QuantizedCache, dequantize, quantize
from kvproof.model.masks import BoolArray, IntArray, visible_keys
from kvproof.model.params import FloatArray
from kvproof.zoo.masks import UNPADDED
from kvproof.zoo.right import RightDecoder
from kvproof.zoo.specimen import broken


class _AddedMask(RightDecoder):
    """Adds numbers to the scores where the core takes a mask of booleans."""

    def added(self, visible: BoolArray) -> FloatArray:
        """What to add, the shape of ``visible``."""
        raise NotImplementedError

    def scaled_dot_product_attention(
        self,
        q: FloatArray,
        k: FloatArray,
        v: FloatArray,
        visible: BoolArray,
        bias: FloatArray | None = None,
    ) -> FloatArray:
        added = self.added(visible).astype(q.dtype)
        added = added if bias is None else added + bias
        return layers.scaled_dot_product_attention(q, k, v, np.full_like(visible, True), added)


@broken(
    "mask-value-bool",
    Kind.MASK_VALUE,
    "huggingface/diffusers#14342",
    "one chunk of 2",
    "one shot",
    ("ones",),
)
class MaskValueBool(_AddedMask):
    """A boolean mask goes into an argument that is added to the scores: visible keys get 1 more,
    hidden ones stay.
    """

    def added(self, visible: BoolArray) -> FloatArray:
        return np.where(visible, 1.0, 0.0)


@broken(
    "mask-value-small",
    Kind.MASK_VALUE,
    "huggingface/transformers#15199",
    "one chunk of 2",
    "one shot",
    ("ones",),
)
class MaskValueSmall(_AddedMask):
    """Minus infinity is a number that looked large enough (-10,000 in the report, -5 here); scores
    of the model reach it, and hidden keys shine through.
    """

    def added(self, visible: BoolArray) -> FloatArray:
        return np.where(visible, 0.0, -5.0)


@broken(
    "mask-value-nan",
    Kind.MASK_VALUE,
    "huggingface/transformers#38690",
    "2 rows, one of them padded, one chunk",
    "padded",
    UNPADDED,
)
class MaskValueNan(RightDecoder):
    """Padding may see nothing at all, so its softmax is 0 / 0; the next layer multiplies that NaN
    by a weight of 0, which is NaN in all rows that hide it.
    """

    def visible_keys(
        self, causal: BoolArray, keys: IntArray, padding: IntArray, *limits: Any
    ) -> BoolArray:
        visible = visible_keys(causal, keys, padding, *limits)
        return visible & (keys >= padding[:, None])[:, None, None, :]


class _Int8(RightDecoder):
    storage = "int8"
    cache: type[QuantizedCache]

    def empty(self, batch_size: int) -> KVCache:
        return self.cache.empty(self.shape(batch_size))


class _FirstScale(QuantizedCache):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        new = [
            _with_scale_of(stored[layer], x)
            for stored, x in ((self.keys, keys), (self.values, values))
        ]
        all_keys, all_values = ConcatCache._append(self, layer, *new)
        return dequantize(all_keys), dequantize(all_values)


def _with_scale_of(stored: QuantizedArray, x: FloatArray) -> QuantizedArray:
    """``x`` in the scale of the first stored token, if there is one; larger numbers are cut."""
    records = quantize(x)
    if stored.shape[2]:
        records["scale"] = stored["scale"][:, :, :1]
        records["levels"] = np.rint(np.clip(x / records["scale"][..., None], -127, 127))
    return records


@broken(
    "quant-scale-first",
    Kind.QUANT_SCALE,
    "Avarok-Cybersecurity/atlas#995",
    "int8, chunks [1, 1]",
    "prefill, then ones",
    ("one shot",),
)
class QuantScaleFirst(_Int8):
    """The scale is frozen at the first token that is seen; what is larger later is cut off, what is
    smaller loses its digits.
    """

    cache = _FirstScale


class _OtherLayersScale(QuantizedCache):
    def _append(
        self, layer: int, keys: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        super()._append(layer, keys, values)
        return self._read(self.keys, layer), self._read(self.values, layer)

    def _read(self, arrays: list[QuantizedArray], layer: int) -> FloatArray:
        records = arrays[layer].copy()
        records["scale"] = arrays[0]["scale"]
        return dequantize(records)


@broken(
    "quant-scale-layer",
    Kind.QUANT_SCALE,
    "Alberto-Codes/turboquant-vllm#79, vllm-project/vllm#55559",
    "int8, 2 layers, one chunk",
    "one shot",
)
class QuantScaleLayer(_Int8):
    """Every layer undoes the quantisation with the scales of the first one."""

    cache = _OtherLayersScale


@broken(
    "quant-scale-touched",
    Kind.QUANT_SCALE,
    "vllm-project/vllm#51091",
    "int8, chunks [2, 1] on a new object; the next request is right",
    "prefill, then ones",
    ("one shot",),
)
class QuantScaleTouched(_Int8):
    """The scales of a layer are set to 1 when it is first used, which for one layer is after the
    prompt has been written: the first request reads keys of a wrong size.
    """

    cache = QuantizedCache

    def reset(self) -> None:
        self._is_warm = False

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        if not self._is_warm and cache is not None and cache.length:
            cache, self._is_warm = cache.fork(), True
            for stored in (cache.keys, cache.values):  # lists of one array a layer
                stored[-1] = stored[-1].copy()
                stored[-1]["scale"] = 1.0
        return super().step(tokens, cache, lengths)


@broken(
    "logit-shift-scores",
    Kind.LOGIT_SHIFT,
    "AI-Hypercomputer/maxtext#2103",
    "one chunk of 2",
    "one shot",
    ("ones",),
)
class LogitShiftScores(RightDecoder):
    """The scores of a chunk are moved by one position, as a training loss would have them: each
    row holds what its predecessor predicts.
    """

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        logits, cache = super().step(tokens, cache, lengths)
        return np.concatenate([logits[:, :1], logits[:, :-1]], axis=1), cache


@broken(
    "logit-shift-last",
    Kind.LOGIT_SHIFT,
    "abetlen/llama-cpp-python#1179",
    "one chunk of 2",
    "one shot",
    ("ones",),
)
class LogitShiftLast(RightDecoder):
    """The index of the row to sample from is one below the length of the input: the last row of a
    chunk repeats the one before.
    """

    def step(
        self, tokens: ArrayLike, cache: Any = None, lengths: ArrayLike | None = None
    ) -> tuple[FloatArray, Any]:
        logits, cache = super().step(tokens, cache, lengths)
        if logits.shape[1] > 1:
            logits[:, -1] = logits[:, -2]
        return logits, cache
