"""Rewrites of a query that give another result where it depends on an order that SQLite does not specify."""

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from dphrl.scoring.sql.program import parse_query

# Of functions over a window, these depend on which of several ties comes first; aggregates do with a frame of ROWS.
_BY_POSITION: Final = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
# What SQLite may take for a bare column of a group: the least value, the largest, and NULL if any is NULL.
_VALUES: Final[tuple[Callable[[exp.Column], exp.Expr], ...]] = (
    lambda column: exp.Min(this=column),
    lambda column: exp.Max(this=column),
    lambda column: exp.case().when(
        exp.EQ(this=exp.Count(this=column.copy()), expression=exp.Count(this=exp.Star())), exp.Max(this=column)
    ),
)


def rewrites(sql: str, width: int) -> list[list[str]]:
    """Groups of queries; where the results of a group differ, the result of the query depends on the order of rows.

    One group breaks ties of every ORDER BY, ascending and descending. One takes several values for bare columns of
    GROUP BY, which SQLite takes from any row of a group. One reads tables from both ends for bare columns beside one
    min() or max(), which SQLite takes from a row with that value. A group may fail to run where a view has no rowid:
    then nothing is decided. No group for a query that cannot be parsed. `width` is the number of columns of its result.
    """
    tree = parse_query(sql)
    if tree is None:
        return []
    ties = [_with_ties_broken(tree.copy(), width, descending) for descending in (False, True)]
    bare = [_with_bare_columns(tree.copy(), value) for value in _VALUES]
    extreme = [_with_tables_in_order(tree.copy(), descending) for descending in (False, True)]
    return [[query.sql(dialect="sqlite") for query in group if query] for group in (ties, bare, extreme) if all(group)]


def _with_ties_broken(tree: exp.Query, width: int, descending: bool) -> exp.Query | None:
    """The query with ties broken by output columns, or by rowids under a star and in windows; None without any."""
    changed = False
    for order in [*tree.find_all(exp.Order)]:
        owner, select = order.parent, order.find_ancestor(exp.Select)
        if isinstance(owner, exp.Window):
            frame = owner.args.get("spec")
            by_rows = frame is not None and frame.args.get("kind") == "ROWS"
            terms = _rowids(select) if by_rows or isinstance(owner.this, _BY_POSITION) else []
        elif not isinstance(owner, exp.Query):
            continue  # such as the order inside of an aggregate
        elif owner is tree or not any(column.is_star for column in owner.selects):
            columns = width if any(column.is_star for column in owner.selects) else len(owner.selects)
            terms = [exp.Literal.number(place) for place in range(1, columns + 1)]
        else:
            terms = _rowids(owner)
        for term in terms:
            order.append("expressions", exp.Ordered(this=term, desc=descending))
        changed = changed or bool(terms)
    return tree if changed else None


def _rowids(query: exp.Expr | None) -> list[exp.Expr]:
    """The rowid of each table in the FROM clause of a SELECT; none where it has other sources, such as a subquery."""
    sources = _sources(query) if isinstance(query, exp.Select) else []
    named = all(isinstance(source, exp.Table) for source in sources)
    return [exp.column("rowid", table=source.alias_or_name) for source in sources] if named else []


def _sources(select: exp.Select) -> list[exp.Expr]:
    start = [select.args["from_"].this] if select.args.get("from_") else []
    return [*start, *(join.this for join in select.args.get("joins") or ())]


def _with_bare_columns(tree: exp.Query, value: Callable[[exp.Column], exp.Expr]) -> exp.Query | None:
    """The query with an aggregate in place of each bare column of a group; None without any."""
    changed = False
    for select in [*tree.find_all(exp.Select)]:
        for column in [] if _extreme(select) else [*_bare_columns(select)]:
            aggregate = value(column.copy())
            if column.parent is select and column.arg_key == "expressions":
                aggregate = exp.alias_(aggregate, column.name, quoted=True)
            column.replace(aggregate)
            changed = True
    return tree if changed else None


def _with_tables_in_order(tree: exp.Query, descending: bool) -> exp.Query | None:
    """The query with tables read by rowid where bare columns stand beside min() or max(); None without any."""
    changed = False
    for select in [*tree.find_all(exp.Select)]:
        if _extreme(select) and any(_bare_columns(select)):
            for table in _sources(select):
                if not isinstance(table, exp.Table):
                    return None
                by_rowid = exp.Ordered(this=exp.column("rowid"), desc=descending)
                # Without a limit SQLite would leave the order out.
                rows = exp.select("*").from_(exp.Table(this=table.this.copy())).order_by(by_rowid).limit(-1)
                table.replace(rows.subquery(table.alias_or_name))
                changed = True
    return tree if changed else None


def _aggregates(select: exp.Select) -> list[exp.AggFunc]:
    return [node for node in select.find_all(exp.AggFunc) if _belongs(node, select)]


def _extreme(select: exp.Select) -> bool:
    """Whether min() or max() is among the aggregates: bare columns are then of a row with that value."""
    return any(isinstance(node, exp.Min | exp.Max) for node in _aggregates(select))


def _bare_columns(select: exp.Select) -> Iterator[exp.Column]:
    """Columns of a grouped SELECT that are neither grouped nor aggregated."""
    group = select.args.get("group")
    if not (group or _aggregates(select)):
        return
    aliases = {output.alias.lower(): output.this for output in select.selects if isinstance(output, exp.Alias)}
    grouped = set[str]()
    for term in group.expressions if group else ():
        if isinstance(term, exp.Literal) and term.is_int and 0 < int(term.this) <= len(select.selects):
            term = select.selects[int(term.this) - 1].unalias()
        elif isinstance(term, exp.Column) and not term.table:
            term = aliases.get(term.name.lower(), term)
        grouped.add(term.sql().lower())
    outputs = [output for output in select.selects if output.unalias().sql().lower() not in grouped]
    others = [select.args[name] for name in ("having", "order") if select.args.get(name)]
    for clause in (*outputs, *others):
        for column in clause.find_all(exp.Column):
            names_output = clause in others and not column.table and column.name.lower() in aliases
            is_bare = column.sql().lower() not in grouped and not isinstance(column.this, exp.Star)
            aggregated = isinstance(column.find_ancestor(exp.AggFunc, exp.Select), exp.AggFunc)
            if is_bare and not names_output and not aggregated and _belongs(column, select):
                yield column


def _belongs(node: exp.Expr, select: exp.Select) -> bool:
    """Whether an expression is of this SELECT, not of a query in it, and of no window."""
    return node.parent_select is select and node.find_ancestor(exp.Window, exp.Select) is select
