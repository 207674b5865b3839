"""The canonical form of a SQL query: one for all names of aliases, orders of conditions and inner joins, parentheses.

It is made from sqlglot's syntax tree without a schema and drops only differences that have no effect under any schema:
queries with the same form have the same meaning in SQLite. (One exception: `a = b` uses the collation of its left
column, which is ignored here.) Different forms may still have the same meaning.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from sqlglot import exp

from dphrl.scoring.verdict import digest

_NAMED: Final = ("this", "alias")
_LONGEST_TERM: Final = 1000
_INNER: Final = frozenset({"", "INNER", "CROSS"})


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names in a query: table aliases and CTEs, each with its canonical name.

    `sole` is the only source of the innermost SELECT: its columns need no qualifier, unless an output column in `kept`
    bears the same name.
    """

    depth: int = 0
    sources: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    sole: str | None = None
    kept: frozenset[str] = frozenset()


class UnnamedSourceError(ValueError):
    """A FROM clause has other sources than tables and subqueries: a table-valued function, nested or only joins."""


def canonical_form(query: exp.Query) -> str:
    """The canonical text of a query's syntax tree.

    Raises UnnamedSourceError, and RecursionError where the query is nested too deeply.
    """
    return _query(query, _Scope(), named=False)


def _form(node: exp.Expr, scope: _Scope) -> str:
    match node:
        case exp.Paren():
            return _form(node.this, scope)
        case exp.Select() | exp.SetOperation():
            return _query(node, scope, named=False)
        case exp.And() | exp.Or() | exp.EQ() | exp.NEQ():
            operands = _operands(type(node), node) if isinstance(node, exp.Connector) else node.iter_expressions()
            return f"({' '.join([type(node).__name__, *sorted(_form(operand, scope) for operand in operands)])})"
        case exp.Literal():
            return f"(Text {json.dumps(node.this)})" if node.is_string else _number(node.this)
        case exp.Identifier():
            return json.dumps(node.name.lower())
        case exp.Anonymous():
            return f"({node.name.lower()} {_value(node.expressions, scope)})"
        case exp.Column() if isinstance(node.this, exp.Identifier | exp.Star):
            return _column(node, scope)
        case exp.Table():
            return _table(node, scope)
    return _arguments(node, scope)


def _arguments(node: exp.Expr, scope: _Scope, without: Iterable[str] = ()) -> str:
    arguments = ((key, value) for key, value in sorted(node.args.items()) if value and key not in without)
    return f"({type(node).__name__}{''.join(f' {key}={_value(value, scope)}' for key, value in arguments)})"


def _value(value: Any, scope: _Scope) -> str:
    if isinstance(value, exp.Expr):
        return _form(value, scope)
    if isinstance(value, list):
        return _list(_value(item, scope) for item in value)
    return json.dumps(str(value))


def _list(forms: Iterable[str]) -> str:
    return f"[{' '.join(forms)}]"


def _number(text: str) -> str:
    """Integers and reals stay distinct: 1 / 2 is not 1.0 / 2."""
    for kind in (int, float):
        with suppress(ValueError):
            return repr(kind(text))
    return text


def _operands(connective: type[exp.Expr], node: exp.Expr) -> Iterator[exp.Expr]:
    """The operands of a chain of one connective, regardless of parentheses; of anything else, the node itself."""
    waiting = [node]
    while waiting:
        operand = waiting.pop().unnest()
        if type(operand) is connective:
            waiting += (operand.args["this"], operand.args["expression"])
        else:
            yield operand


def _column(node: exp.Column, scope: _Scope) -> str:
    """A column; an unqualified one in double quotes may be a string, so its spelling is kept."""
    name, table = node.name.lower(), node.table.lower()
    if not table and node.this.args.get("quoted"):
        return f"(Quoted {json.dumps(node.name)})"
    column = "(Star)" if isinstance(node.this, exp.Star) else json.dumps(name)
    if not table or (table == scope.sole and name not in scope.kept):
        return column
    if not node.args.get("db"):
        return f"{scope.sources.get(table, json.dumps(table))}.{column}"
    return _arguments(node, scope)


def _table(node: exp.Table, scope: _Scope) -> str:
    if not isinstance(node.this, exp.Identifier) or node.args.get("joins"):
        raise UnnamedSourceError
    canonical = None if node.args.get("db") else scope.tables.get(node.name.lower())
    return canonical or _arguments(node, scope, without=("alias",))


def _query(node: exp.Expr, scope: _Scope, named: bool) -> str:
    """A query with its CTEs; `named`: its output columns have names outside of it (a CTE, a subquery in FROM)."""
    depth = scope.depth + 1
    ctes = node.args["with_"].expressions if node.args.get("with_") else []
    names = {cte.alias.lower(): f"cte{depth}.{index}" for index, cte in enumerate(ctes)}
    scope = _Scope(depth, scope.sources, {**scope.tables, **names})
    columns = (_value(cte.args["alias"].args.get("columns") or [], scope) for cte in ctes)
    parts = [_query(cte.this, scope, named=True) + listed for cte, listed in zip(ctes, columns, strict=True)]
    if isinstance(node, exp.Select):
        parts.append(_select(node, scope, named))
    elif isinstance(node, exp.SetOperation):
        parts.append(_compound(node, scope, named))
    else:
        raise UnnamedSourceError
    return f"(With {' '.join(parts)})" if ctes else parts[0]


def _compound(node: exp.SetOperation, scope: _Scope, named: bool) -> str:
    # ORDER BY names output columns of the branches.
    named = named or node.args.get("order") is not None
    sides = [_query(side, scope, named) for side in (node.left, node.right)]
    rest = _arguments(node, scope, without=("this", "expression", "order", "with_"))
    return f"({' '.join([*sides, rest])}{_order(node, scope, {})})"


def _select(node: exp.Select, scope: _Scope, named: bool) -> str:
    joins = node.args.get("joins") or []
    start = [node.args["from_"]] if node.args.get("from_") else []
    if joins and not start:
        raise UnnamedSourceError
    sources = [(_source(part.this, scope), part.this.alias_or_name.lower()) for part in (*start, *joins)]
    inner = all(join.kind in _INNER for join in joins)
    inner = inner and not any(join.args.get(key) for join in joins for key in ("side", "method", "using"))
    if inner and not any(isinstance(column, exp.Star) for column in node.expressions):
        sources.sort(key=itemgetter(0))
    origin, names = [form for form, _ in sources], [name for _, name in sources]
    own = _Scope(
        scope.depth,
        {**scope.sources, **{name: f"t{scope.depth}.{rank}" for rank, name in enumerate(names)}},
        scope.tables,
        sole=names[0] if len(names) == 1 else None,
        kept=_kept_aliases(node, named),
    )
    conditions = [node.args["where"].this] if node.args.get("where") else []
    if inner:
        conditions += [join.args["on"] for join in joins if join.args.get("on")]
    else:
        origin[1:] = [_join(join, form, own) for join, form in zip(joins, origin[1:], strict=True)]
    where = _list(sorted(_form(part, own) for whole in conditions for part in _operands(exp.And, whole)))
    # Each form is made once: subqueries as output columns may be nested.
    outputs = [
        (column.alias.lower() if isinstance(column, exp.Alias) else None, _form(column.unalias(), own))
        for column in node.expressions
    ]
    columns = _list(f"({value} As {json.dumps(name)})" if name in own.kept else value for name, value in outputs)
    aliases = {name: value for name, value in reversed(outputs) if name is not None}
    rest = _arguments(node, own, without=("expressions", "from_", "joins", "where", "order", "with_"))
    return f"(Select {columns} From {_list(origin)} Where {where} {rest}{_order(node, own, aliases)})"


def _source(node: exp.Expr, scope: _Scope) -> str:
    """A table or a subquery of a FROM clause, without its alias."""
    if isinstance(node, exp.Table):
        return _table(node, scope)
    if isinstance(node, exp.Subquery) and not any(value for key, value in node.args.items() if key not in _NAMED):
        return _query(node.this, scope, named=True)
    raise UnnamedSourceError


def _join(join: exp.Join, source: str, scope: _Scope) -> str:
    kind = [join.args.get(key) or "" for key in ("method", "side")]
    return f"({kind} {source} {_arguments(join, scope, without=('this', 'kind', 'method', 'side'))})"


def _kept_aliases(node: exp.Select, named: bool) -> frozenset[str]:
    """The aliases that expressions other than plain ORDER BY terms may refer to; without a schema not certain."""
    values = {column.alias.lower(): column.this for column in node.expressions if isinstance(column, exp.Alias)}
    aliases = {name for name in values if not isinstance(values[name], exp.Column) or values[name].name.lower() != name}
    if named or not aliases:
        return frozenset(aliases)
    order = node.args["order"].expressions if node.args.get("order") else ()
    plain = {id(term.this) for term in order}
    columns = (column for column in node.find_all(exp.Column) if not column.table and id(column) not in plain)
    return frozenset(aliases & {column.name.lower() for column in columns})


def _order(node: exp.Expr, scope: _Scope, aliases: Mapping[str, str]) -> str:
    """ORDER BY, in which the name of an output column comes before the same name of another column."""
    if not node.args.get("order"):
        return ""
    terms = []
    for term in node.args["order"].expressions:
        plain = isinstance(term.this, exp.Column) and not term.this.table
        value = (aliases.get(term.this.name.lower()) if plain else None) or _form(term.this, scope)
        # A long one, which may be the value of an alias, is not repeated: it would grow with each level.
        value = value if len(value) <= _LONGEST_TERM else digest(value)
        terms.append(f"{value} {_arguments(term, scope, without=('this',))}")
    return f" Order {_list(terms)}"
