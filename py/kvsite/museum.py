"""The museum: a card for each kind of mistake, with what the checker finds in one of its specimens.

The specimens are the zoo's.  What is measured is measured here; the texts by kind are in
``site/texts/museum_*.toml``, and what a kind means stands in the checker's catalogues.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from kvlab.marks import MARKS, MASK_STATES, mask_states
from kvproof import check, zoo
from kvproof.checking.cases import TAKES_TOKENS
from kvproof.checking.messages import Message
from kvproof.checking.report import Finding, Influence, meaning
from kvproof.kinds import KINDS, Kind
from kvproof.zoo import SPECIMENS
from kvsite.languages import ENGLISH, Language
from kvsite.paths import CHECKED
from kvsite.specimens import specimen_labels
from kvsite.words import TEXTS, Catalogue, load_catalogue

ROOMS: dict[str, dict[Kind, str]] = {
    "second-turn": {
        Kind.MASK_TOPLEFT: "mask-topleft-chunks",
        Kind.POS_RESET: "pos-reset-rope",
        Kind.POS_DRIFT: "pos-drift-prompt-twice",
        Kind.BIAS_LEN: "bias-len-alibi",
        Kind.SELF_READ: "self-read-chunk",
        Kind.SLOT_WRITE: "slot-write-hole",
        Kind.LAYER_MIX: "layer-mix-last",
        Kind.KV_LAYOUT: "kv-layout-strides",
    },
    "chunks": {
        Kind.MASK_SKIPPED: "mask-skipped-past",
        Kind.MASK_VALUE: "mask-value-bool",
    },
    "long": {
        Kind.WINDOW_OBO: "window-obo-prefill",
        Kind.WINDOW_PHASE: "window-phase-short-chunk",
        Kind.RING_ORDER: "ring-order-assumed",
        Kind.ROPE_FRAME: "rope-frame-evict",
        Kind.ROPE_LEN: "rope-len-dynamic",
    },
    "batch": {
        Kind.POS_PERROW: "pos-perrow-learned",
        Kind.PAD_MASK: "pad-mask-decode",
        Kind.PAGE_MAP: "page-map-contiguous",
        Kind.ROW_PERM: "row-perm-none",
    },
    "back": {
        Kind.ROLLBACK: "rollback-none",
        Kind.ALIAS: "alias-fork",
    },
    "again": {
        Kind.SLOT_STALE: "slot-stale-leftover",
        Kind.REUSE_KEY: "reuse-key-first-token",
        Kind.DUP_APPEND: "dup-append-exact-hit",
    },
    "off": {
        Kind.HEAD_MAP: "head-map-cached",
        Kind.QUANT_SCALE: "quant-scale-first",
        Kind.LOGIT_SHIFT: "logit-shift-scores",
    },
}
"""By symptom: each kind with the specimen that its card shows; the checker names it rightly."""

HABITS = {
    "one shot": "museum.habit.one-shot",
    "C = 1": "museum.habit.ones",
    "argmax": "museum.habit.argmax",
    "last argmax": "museum.habit.last-argmax",
    "B = 1": "museum.habit.one-row",
    "first use": "museum.habit.first-use",
}
"""A habit of testing less (``kvproof.zoo.blind``) -> its message."""

SIGNS = {state: MARKS[state].text for state in MASK_STATES}
"""A cell of a mask -> its mark."""


# --- What is measured ---------------------------------------------------------------------------


class Measured(NamedTuple):
    """What a specimen shows with seed 0."""

    finding: Finding
    """The checker's first."""
    missed_by: tuple[str, ...]
    """Habits of testing that don't see it."""


def measured() -> dict[Kind, Measured]:
    """Each kind's specimen in the checker, and the habits that miss it: some seconds of work."""
    return {kind: measure(kind, name) for room in ROOMS.values() for kind, name in room.items()}


def measure(kind: Kind, name: str) -> Measured:
    """One specimen.

    Raises:
        ValueError: the checker doesn't take it for this kind, so the card would show another.
    """
    findings = check(SPECIMENS[name].make(seed=0)).findings
    found = findings[0].kind if findings else "nothing"
    if found != kind:
        raise ValueError(f"{name} can't stand for {kind}: the checker finds {found} in it")
    return Measured(findings[0], zoo.facts(SPECIMENS[name], seeds=(0,)).blind)


# --- Its picture --------------------------------------------------------------------------------


class Token(NamedTuple):
    """One of the smallest case; ``state`` is "history", "chunk" in the call that goes wrong, or
    "pad".
    """

    text: str
    state: str
    is_wrong: bool = False
    """The first token with wrong logits."""


class Step(NamedTuple):
    """One operation of the smallest case."""

    op: Message
    is_wrong: bool
    rows: list[list[Token]]
    """The tokens that it takes, by sequence."""


def steps(finding: Finding) -> list[Step]:
    """The smallest case as a strip: its operations, and below each its tokens.

    Raises:
        ValueError: there is no case.
    """
    case, bad = finding.case, finding.first_bad
    if case is None:
        raise ValueError(f"{finding.kind} has no case")
    strip, start, slot = [], 0, 0
    for index, op in enumerate(case.ops):
        size = op.argument if op.action in TAKES_TOKENS else 0
        slot = {"crop": op.argument, "restart": 0}.get(op.action, slot)
        is_wrong = index == bad.get("operation")
        state = "chunk" if is_wrong else "history"
        rows = []
        for row, tokens in enumerate(case.tokens):
            pads = size - case.lengths[row] if case.lengths and start == 0 else 0
            taken = tokens[start : start + size]
            first_wrong = bad["position"] - slot if is_wrong and row == bad["row"] else None
            rows.append(
                [
                    Token(str(token), "pad" if i < pads else state, i == first_wrong)
                    for i, token in enumerate(taken)
                ]
            )
        strip.append(Step(op.message, is_wrong, rows))
        start += size
        slot += size if op.action == "feed" else 0  # a fork's or branch's are in the second cache
    return strip


def grid(influence: Influence) -> list[list[str]]:
    """(C, P + C), the state of each cell: what the cache does beside what ``full`` does."""
    states: list[list[str]] = mask_states(
        influence.seen, influence.expected, influence.n_past
    ).tolist()
    return states


# --- The cards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """What the page shows of a kind, in its language."""

    kind: Kind
    meaning: str
    mend: str
    catch: str
    missed_by: list[str]
    """IDs of messages."""
    specimen: str
    label: str
    """What the page calls the specimen."""
    finding: Finding
    evidence: str
    """The first thing that speaks for it."""
    strip: list[Step]
    grid: list[list[str]] | None
    """None: there is nothing to draw."""
    reports: dict[str, str]
    """owner/repository#number -> address, of all specimens of the kind."""


@dataclass(frozen=True)
class Room:
    """A symptom, and the kinds that look like that."""

    name: str
    title: str
    intro: str
    cards: list[Card]


def rooms(language: Language, found: dict[Kind, Measured]) -> list[Room]:
    """The whole museum.

    Raises:
        ValueError: a kind has no room, or a text is missing.
    """
    if missing := set(KINDS) - {kind for kinds in ROOMS.values() for kind in kinds}:
        raise ValueError(f"no room of the museum has {', '.join(sorted(missing))}")
    words = museum_words(language)
    return [
        Room(
            name,
            words[f"room.{name}.title"],
            words[f"room.{name}.intro"],
            [card(kind, specimen, found[kind], language) for kind, specimen in kinds.items()],
        )
        for name, kinds in ROOMS.items()
    ]


def card(kind: Kind, specimen: str, found: Measured, language: Language) -> Card:
    """One kind's."""
    words, code = museum_words(language), language.code.lower()
    finding = found.finding
    return Card(
        kind,
        _title(meaning(kind).text(code), language),
        words[f"{kind}.mend"],
        words[f"{kind}.catch"],
        [message for habit, message in HABITS.items() if habit in found.missed_by],
        specimen,
        specimen_labels(language)[specimen],
        finding,
        finding.evidence[0].text(code),
        steps(finding),
        None if finding.influence is None else grid(finding.influence),
        reports(kind),
    )


def museum_words(language: Language) -> Catalogue:
    """The texts by kind."""
    words = load_catalogue(TEXTS / f"museum_{language.source}.toml")
    return Catalogue({message: language.from_source(text) for message, text in words.items()})


def reports(kind: Kind) -> dict[str, str]:
    """The public reports that the zoo's specimens of a kind are cut down from."""
    return {
        report: link
        for one in SPECIMENS.values()
        if one.kind == kind
        for report, link in zip(one.report.split(", "), one.links, strict=True)
    }


def _title(text: str, language: Language) -> str:
    """In Chinese a word such as "token" stays as it is."""
    return text[0].upper() + text[1:] if language == ENGLISH else text


# --- What was found in libraries ----------------------------------------------------------------


class Checked(NamedTuple):
    """The table of ``docs/CHECKED.md``."""

    versions: str
    """name version, ..."""
    n_all: int
    wrong: list[list[str]]
    """decoder, cache, kind, smallest case, error, allowed; all that isn't right."""


def checked() -> Checked:
    """What the checker says of decoders in libraries.

    Raises:
        ValueError: the table has another form.
    """
    text = CHECKED.read_text("utf-8")
    found = re.search(r"^Versions: (.+)\.$", text, re.MULTILINE)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| [\w-]+: ", line)
    ]
    if not found or not rows or any(len(row) != 7 for row in rows):
        raise ValueError(f"{CHECKED.name} has no table of decoders, or one of another form")
    wrong = [
        [decoder, cache, verdict.split(" ")[0], case, error, allowed]
        for decoder, cache, verdict, case, error, allowed, _ in rows
        if verdict != "right"
    ]
    return Checked(found[1], len(rows), wrong)
