"""All mutations of a source file: one small change of one expression or statement each."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
RENAMED = {
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "ones_like": "zeros_like",
    "floor": "ceil",
    "ceil": "floor",
    "isfinite": "isnan",
    "sum": "prod",
}
SIDES = {"left": "right", "right": "left"}
SPOKEN = ("log", "logging", "warnings")
UNREAD_KEYWORDS = ("strict", "stacklevel")
DEFAULT = "default"
MODULE = "module"
UNMUTATED_FUNCTIONS = ("__repr__", "__str__")


class Mutation(NamedTuple):
    """A change of `before` into `after`, where bytes `start` to `end` of the file become `text`."""

    function: str
    line: int
    line_text: str
    kind: str
    before: str
    after: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """Every mutation of this source, in the order of the file, each change once."""
    found = {(m.start, m.end, m.after): m for m in _Finder(source).of(ast.parse(source)) if m.before != m.after}
    return list(found.values())


def compiles(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


class _Finder:
    """Visitor that tracks the current function and skips text for humans."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def of(self, tree: ast.Module) -> Iterator[Mutation]:
        yield from self._statements(tree.body, "")

    def _statements(self, body: list[ast.stmt], function: str) -> Iterator[Mutation]:
        for statement in body:
            yield from self._statement(statement, function)

    def _statement(self, node: ast.stmt, function: str) -> Iterator[Mutation]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name not in UNMUTATED_FUNCTIONS:
                    inner = f"{function}.{node.name}".lstrip(".")
                    for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                        yield from (mutation._replace(kind=DEFAULT) for mutation in self._expression(default, inner))
                    yield from self._statements(node.body, inner)
            case ast.ClassDef():
                yield from self._statements(node.body, f"{function}.{node.name}".lstrip("."))
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Pass() | ast.Global() | ast.Nonlocal():
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=call) if _speaks(call):
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.Raise():
                yield self._deleted(node, function)
            case ast.Return(value=value):
                if value is not None and not _is_none(value):
                    yield self._replaced(node, "return None", "return value", function)
                    yield from self._expression(value, function)
            case ast.Break() | ast.Continue():
                yield self._deleted(node, function)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
                yield from self._simple(node, function)
            case _:
                yield from self._compound(node, function)

    def _simple(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr, function: str) -> Iterator[Mutation]:
        if node.value is None:
            return
        declares = isinstance(node, ast.Assign | ast.AnnAssign) and not function_body(function)
        if not declares and not _names_first(node):
            yield self._deleted(node, function)
        if isinstance(node, ast.AugAssign):
            for swapped in SWAPPED.get(type(node.op), ()):
                yield self._changed(node, "arithmetic", function, op=swapped())
        yield from self._expression(node.value, function)
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            if isinstance(target, ast.Subscript):
                yield from self._expression(target.slice, function)

    def _compound(self, node: ast.stmt, function: str) -> Iterator[Mutation]:
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody"):
                yield from self._statements(value, function)
            elif name == "test":
                yield from self._condition(value, function)
            elif name == "handlers":
                for handler in value:
                    yield from self._statements(handler.body, function)
            elif name == "cases":
                for case in value:
                    yield from self._statements(case.body, function)
            elif name == "items":
                for item in value:
                    yield from self._expression(item.context_expr, function)
            elif isinstance(value, ast.expr) and name != "target":
                yield from self._expression(value, function)

    def _condition(self, node: ast.expr, function: str) -> Iterator[Mutation]:
        yield self._replaced(node, _negated(node), "negated condition", function)
        yield self._replaced(node, "True", "constant condition", function)
        yield self._replaced(node, "False", "constant condition", function)
        yield from self._expression(node, function)

    def _expression(self, node: ast.expr, function: str) -> Iterator[Mutation]:
        match node:
            case ast.JoinedStr() | ast.Lambda(body=ast.Constant(value=str())):
                return
            case ast.Constant():
                yield from self._constant(node, function)
                return
            case ast.Compare(ops=ops):
                for k, op in enumerate(ops):
                    for swapped in SWAPPED[type(op)]:
                        yield self._changed(node, "comparison", function, ops=[*ops[:k], swapped(), *ops[k + 1 :]])
            case ast.BinOp(op=op):
                for swapped in SWAPPED.get(type(op), ()):
                    yield self._changed(node, "arithmetic", function, op=swapped())
            case ast.BoolOp(op=op, values=values):
                yield self._changed(node, "boolean operator", function, op=SWAPPED[type(op)][0]())
                for k in range(len(values)):
                    rest = [*values[:k], *values[k + 1 :]]
                    kept = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                    yield self._replaced(node, f"({ast.unparse(kept)})", "dropped operand", function)
            case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
                yield self._replaced(node, f"({ast.unparse(operand)})", "dropped sign", function)
            case ast.IfExp(test=test):
                yield self._replaced(test, _negated(test), "negated condition", function)
            case ast.Call():
                if _speaks(node):
                    return
                yield from self._renamed(node, function)
                if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
                    node = ast.Call(node.func, [arg for arg in node.args if ast.unparse(arg) != "-1"], node.keywords)
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                yield from self._child(name, child, function)

    def _child(self, name: str, child: object, function: str) -> Iterator[Mutation]:
        match child:
            case ast.keyword(arg=arg, value=value):
                if arg not in UNREAD_KEYWORDS:
                    yield from self._expression(value, function)
            case ast.comprehension(iter=source, ifs=conditions):
                yield from self._expression(source, function)
                for condition in conditions:
                    yield self._replaced(condition, "True", "constant condition", function)
                    yield from self._expression(condition, function)
            case ast.expr() if name not in ("annotation", "ctx"):
                yield from self._expression(child, function)

    def _renamed(self, call: ast.Call, function: str) -> Iterator[Mutation]:
        """`any` for `all`, whether it is a function or a method."""
        match call.func:
            case ast.Name(id=name) if name in RENAMED and name != "sum":
                yield self._replaced(call.func, RENAMED[name], "function", function)
            case ast.Attribute(attr=name) if name in RENAMED:
                changed = ast.Attribute(call.func.value, RENAMED[name], ast.Load())
                yield self._replaced(call.func, ast.unparse(changed), "function", function)

    def _constant(self, node: ast.Constant, function: str) -> Iterator[Mutation]:
        for other in _other_constants(node.value):
            yield self._replaced(node, repr(other), "constant", function)

    def _deleted(self, node: ast.stmt, function: str) -> Mutation:
        return self._replaced(node, "pass", "deleted statement", function)

    def _changed(self, node: ast.AST, kind: str, function: str, **fields: object) -> Mutation:
        changed = copy.copy(node)
        for name, value in fields.items():
            setattr(changed, name, value)
        text = ast.unparse(changed)
        return self._replaced(node, f"({text})" if isinstance(node, ast.expr) else text, kind, function)

    def _replaced(self, node: ast.AST, text: str, kind: str, function: str) -> Mutation:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        line = self.lines[node.lineno - 1].decode().strip()  # type: ignore[attr-defined]
        after = _unbracketed(text)
        return Mutation(
            function or MODULE,
            node.lineno,  # type: ignore[attr-defined]
            line,
            kind,
            ast.unparse(node),
            after,
            start,
            end,
            text,
        )


def function_body(function: str) -> bool:
    """Whether a dotted name ends in a function rather than a class, judged by the case of its first letter."""
    last = function.rpartition(".")[2]
    return last not in ("", MODULE) and not last.lstrip("_")[:1].isupper()


def _speaks(node: ast.expr) -> bool:
    """Whether this is a call that only produces a message."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in SPOKEN
    return False


def _names_first(node: ast.stmt) -> bool:
    """Whether this assigns a name for the first time, so that deleting it would be an immediate error."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return not any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))
        case ast.Assign(targets=[ast.Tuple()]) | ast.AnnAssign(target=ast.Name()):
            return True
    return False


def _negated(node: ast.expr) -> str:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"({ast.unparse(node.operand)})"
    return f"(not ({ast.unparse(node)}))"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _other_constants(value: object) -> list[object]:
    match value:
        case bool():
            return [not value]
        case int() if abs(value) < 10:
            return [value + 1, value - 1]
        case int():
            return [2 * value]
        case float() if value in (0.0, 1.0):
            return [1.0 - value]
        case float() if abs(value) < 1e-3:
            return [1000 * value]
        case float():
            return [2 * value]
        case str() if value in SIDES:
            return [SIDES[value]]
    return []


def _unbracketed(text: str) -> str:
    if text.startswith("(") and text.endswith(")"):
        try:
            return ast.unparse(ast.parse(text, mode="eval"))
        except SyntaxError:
            return text
    return text
