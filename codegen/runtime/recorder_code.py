"""The machine code of the recorder: its LLVM text, and the facts about the code that Python needs beside addresses.

    text(module)      the text of the whole module
    facts()           the names and offsets of fields, as plain Python: they are kept on disk beside the code

Only a process that builds the code imports this file, and with it all sources.  They are native Python
(`codegen.native`).  Read them in this order: `recorder_sites` (the entry points), `recorder_tables`, `recorder_put`,
`recorder_nodes`, `recorder_life`; for asks begin with `recording_keys`.
"""

from __future__ import annotations

from typing import Any

from ..native import Struct, Translation
from . import (
    recorder_arrays,
    recorder_life,
    recorder_nodes,
    recorder_put,
    recorder_reads,
    recorder_sites,
    recorder_subscripts,
    recorder_tables,
    recorder_updates,
    recording_families,
    recording_interpret,
    recording_keys,
    recording_parts,
    recording_piece,
    recording_program,
    recording_reverse,
    recording_rules,
    recording_run,
    recording_walk,
)
from . import recording_structs as raw

_BUILTINS = (
    recording_keys.ask, recording_families.describe_ask, raw.remember,
    recording_walk.history_of, recording_interpret.interpreted,
    recording_piece.learn_piece, recording_parts.cut_known_segments, recording_parts.compute_parts,
    recording_parts.pull_parts, recording_program.program_of_pending,
    recording_rules.new_pass, recording_rules.run_forward_pass, recording_reverse.run_backward_pass,
    recorder_arrays.copy_leaf, recorder_arrays.learn_leaf, recorder_life.set_life,
    recorder_subscripts.key_words, recorder_tables.place_for,
)  # fmt: skip
_EXPORTS = (
    *recorder_sites.SITES, *recorder_updates.IN_PLACE, *recorder_reads.READS, recorder_subscripts.subscript,
    recorder_subscripts.assign, recorder_nodes.recorder_here, recorder_life.node_dealloc, recorder_life.rich_dealloc,
    recorder_life.node_traverse, recorder_life.node_clear, recorder_nodes.get_inputs, recorder_nodes.set_inputs,
    recorder_nodes.get_number, recorder_nodes.set_number, recorder_put.put_program,
    *recording_interpret.LOOPS_OF_OURS.values(),
)  # fmt: skip

#: The structs of classes with slots, by their names in `RecordLayout`.
_SLOTS = {
    "out": raw.RawOut, "kind": raw.RawKind, "rich": raw.RawRich, "leaf": raw.RawLeaf, "handle": raw.RawHandle,
    "mode": raw.RawMode, "recording": raw.RawRecording, "function": raw.RawFunction, "segment": raw.RawSegment,
    "plans": raw.RawTable, "counts": raw.RawCounts,
}  # fmt: skip
#: Structs that Python fills, by word.
_FILLED = (raw.Tape, recording_run.AnswerBlock, recording_interpret.RunWords, recording_program.StepsBlock,
           recording_piece.CodeBlock, recording_piece.PieceBlock)  # fmt: skip


def text(module: Translation) -> str:
    """The text of the whole module."""
    return module.text(_EXPORTS, builtins=_BUILTINS)


def facts() -> dict[str, Any]:
    """The facts that Python needs about the code.

    loops              the names of our own loops, by operation and bytes of an element
    slots              the offsets of the fields of classes with slots
    words              the names of the words of structs that Python fills
    """
    return {
        "loops": {key: loop.name for key, loop in recording_interpret.LOOPS_OF_OURS.items()},
        "slots": {name: _offsets(struct) for name, struct in _SLOTS.items()},
        "words": {struct.__name__: [*struct.fields()] for struct in _FILLED},
    }


def _offsets(struct: type[Struct]) -> dict[str, int]:
    """The offsets of a struct's own fields."""
    heads = ("head", "references", "rest", "type")
    return {name: field.offset for name, field in struct.fields().items() if name not in heads}
