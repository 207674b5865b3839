"""Prompt messages of a dataset row."""

import sqlite3
from pathlib import Path
from typing import Any, Final

from dphrl.data.databases import database_path, schema_text
from dphrl.data.fields import Fields, MalformedError, Row, show, text

Messages = list[dict[str, str]]

ASSISTANT: Final = "assistant"
_USER: Final = "user"
_ROLES: Final = ("system", _USER, ASSISTANT)
# A shorter solution occurs in questions by chance.
_LONG_SOLUTION: Final = 40
# The chain-of-thought prompt of Qwen2.5-Math (arXiv 2409.12122).
_MATH_INSTRUCTION: Final = "Please reason step by step, and put your final answer within \\boxed{}."
# The prompt of OmniSQL (arXiv 2503.02240), which DPH-RL (arXiv 2509.07430) trains and evaluates with.
_SQL_PROMPT: Final = """\
Task Overview:
You are a data science expert. Below, you are provided with a database schema and a natural language question. \
Your task is to understand the schema and generate a valid SQL query to answer the question.

Database Engine:
SQLite

Database Schema:
{schema}
This schema describes the database's structure, including tables, columns, primary keys, foreign keys, \
and any relevant relationships or constraints.

Question:
{question}

Instructions:
- Make sure you only output the information that is asked in the question. \
If the question asks for a specific column, make sure to only include that column in the SELECT clause, nothing more.
- The generated query should return all of the information asked in the question \
without any missing or extra information.
- Before generating the final SQL query, please think through the steps of how to write the query.

Output Format:
In your answer, please enclose the generated SQL query in a code block:
```sql
-- Your SQL query
```

Take a deep breath and think step by step to find the correct SQL query.
"""


def messages_of(
    row: Row, task: str, truth: dict[str, Any], fields: Fields, instruction: str | None, databases: Path | None
) -> Messages:
    """The messages of a row.

    `prompt` (text or messages) or `messages` is used unchanged. A bare `question` gets the prompt of its task: for sql
    OmniSQL's with the schema of the database `truth["db_id"]` and BIRD's `evidence` before the question; for math the
    system message of Qwen2.5-Math; for any other task none.

    Args:
        instruction: a system message to put first, instead of the task's.
        databases: folder of the databases; without it databases are not checked and SQL prompts not built.

    Raises MalformedError where a field is missing or of the wrong kind, or the database is missing.
    """
    database = None
    if task == "sql" and databases:
        # The detail does not name the folder: it is written to a table, and tables contain no paths.
        try:
            database = database_path(databases, truth["db_id"])
        except ValueError:
            problem = f"expected a name in the folder of the databases, found {show(truth['db_id'])}"
            raise MalformedError(f"db_id: {problem}") from None
        except FileNotFoundError:
            problem = f"no database {show(truth['db_id'])} in the folder of the databases"
            raise MalformedError(f"db_id: {problem}") from None
    messages = _given(row, fields)
    if messages is None:
        question = fields.text(row, "question")
        if task == "sql":
            question = _sql_prompt(row, question, fields, database)
        elif task == "math" and instruction is None:
            instruction = _MATH_INSTRUCTION
        messages = [{"role": "user", "content": question}]
    if instruction is None:
        return messages
    if messages[0]["role"] == "system":
        raise MalformedError("message 0: expected no system message in addition to the dataset's instruction")
    return [{"role": "system", "content": instruction}, *messages]


def without_answer(messages: Messages) -> Messages:
    """The messages up to the last one of the user; MalformedError without any."""
    users = [number for number, message in enumerate(messages) if message["role"] == _USER]
    if not users:
        raise MalformedError(f"messages: expected one of the user, found {show(messages)}")
    last = users[-1]
    return messages[: last + 1] if messages[-1]["role"] == ASSISTANT else messages


def check_rendered(rendered: str, messages: Messages, row: Row, fields: Fields) -> None:
    """Raise MalformedError if a rendered prompt lacks the last message of the user, or holds the row's solution."""
    prompt = " ".join(rendered.split())
    question = next(message["content"] for message in reversed(messages) if message["role"] == _USER)
    if " ".join(question.split()) not in prompt:
        raise MalformedError(
            "the rendered prompt lacks the last message of the user: does the chat template read only content parts?"
        )
    name, solution = fields.find(row, "solution")
    if isinstance(solution, str) and len(solution.strip()) >= _LONG_SOLUTION and " ".join(solution.split()) in prompt:
        raise MalformedError(f"the prompt holds the text of {name}")


def _given(row: Row, fields: Fields) -> Messages | None:
    """The messages in a row, or None for a bare question."""
    prompts = [field for field in (fields.find(row, "prompt"), fields.find(row, "messages")) if field[1] is not None]
    if not prompts:
        if fields.find(row, "question")[1] is None:
            raise fields.missing(row, "prompt", "messages", "question")
        return None
    if len(prompts) == 2:
        raise MalformedError(f"expected either {prompts[0][0]} or {prompts[1][0]}, found both")
    [(name, value)] = prompts
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise MalformedError(f"{name}: expected text or a list of messages, found {show(value)}")
    return [_message(f"message {number}", message) for number, message in enumerate(value)]


def _message(name: str, value: Any) -> dict[str, str]:
    # Parquet gives each message the keys of all messages, and dumps of chats have empty keys, such as tool_calls.
    message = {key: held for key, held in value.items() if held or key == "content"} if isinstance(value, dict) else {}
    if set(message) != {"role", "content"} or message["role"] not in _ROLES:
        raise MalformedError(f"{name}: expected role ({', '.join(_ROLES)}) and content, found {show(value)}")
    content = message["content"]
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(text(name, part.get("text")) for part in content)
    return {"role": message["role"], "content": text(name, content)}


def _sql_prompt(row: Row, question: str, fields: Fields, database: Path | None) -> str:
    if database is None:
        raise MalformedError("question: its prompt needs the schema, but there is no folder of databases")
    name, evidence = fields.find(row, "evidence")
    if evidence and not (isinstance(evidence, str) and evidence.isspace()):
        question = f"{text(name, evidence)}\n{question}"
    try:
        return _SQL_PROMPT.format(schema=schema_text(database), question=question)
    except sqlite3.Error:
        raise MalformedError(f"db_id: {database.name} is no readable SQLite database") from None
