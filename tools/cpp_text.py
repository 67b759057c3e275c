"""C++ source as text for the checks: blanking of what is not code, and the functions of a file."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP_SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".inc")

# Alternatives in order: at any place the first that matches is taken, so a quote in a comment opens nothing.
_NOT_CODE = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)
      | (?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>\b\d[\w.]*(?:'[\w.]+)+)
      | (?P<char>'(?:[^'\\\n]|\\.)+')""",
    re.DOTALL | re.VERBOSE,
)


def code_only(text, keep_strings=False):
    """The text with comments, and unless asked otherwise strings, made blank. Lines stay where they are."""

    def blank(match):
        if match["number"]:
            return match[0]  # 1'000'000 has quotes and no characters
        if match["comment"] is None and keep_strings:
            return match[0]
        body = re.sub(r"[^\n]", " ", match[0])
        # A string stays a token: without it `f("a")` would look like `f()`.
        return body if match["comment"] is not None or len(body) < 2 else '"' + body[1:-1] + '"'

    return _NOT_CODE.sub(blank, text)


@dataclasses.dataclass
class Function:
    name: str
    first_line: int  # of the signature, counted from 1
    lines: int


def functions(text):
    """The functions defined in a file, in namespaces and classes; a lambda counts as part of what holds it."""
    code = re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", _blank, code_only(text))
    found = []
    start = 0  # where the declaration now read began
    parens = 0
    head = None  # (start, declaration) of the braces now read, where they are no scope
    depth = 0  # braces open since head
    for match in re.finditer(r"[{}();]", code):
        token, at = match[0], match.start()
        if head is not None:
            depth += {"{": 1, "}": -1}.get(token, 0)
            # After the braces of a member's initializer comes another one or the body.
            more = "(" in head[1] and code[at + 1 : at + 200].lstrip()[:1] in (",", "{", ":")
            if depth == 0 and (token == ";" or token == "}" and not more):
                found.append(_function(code, head, at))
                head, start = None, at + 1
        elif token in "()":
            parens += 1 if token == "(" else -1
        elif parens > 0:
            continue  # a braced default argument
        elif token == "{" and not _opens_scope(code[start:at]):
            head, depth = (start, code[start:at]), 1
        else:
            start = at + 1
    return [function for function in found if function is not None]


def _blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def _without_groups(declaration):
    """With (…) made (), and without <…> and attributes: what is left tells the kind of the declaration."""
    text = re.sub(r"\[\[.*?\]\]", " ", declaration, flags=re.DOTALL)
    text = re.sub(r"\b(?:alignas|__attribute__)\s*\(.*?\)+", " ", text, flags=re.DOTALL)
    kept, depth = [], 0
    for character in text:
        depth += character == "("
        if depth == 0 or character in "()" and depth == 1:
            kept.append(character)
        depth -= character == ")"
    text = "".join(kept)
    while re.search(r"<[^<>]*>", text):
        text = re.sub(r"<[^<>]*>", " ", text)
    return text


def _opens_scope(declaration):
    text = _without_groups(declaration)
    if "(" in text or "=" in text:
        return False
    return re.search(r'\b(?:namespace|class|struct|union)\b|\bextern\s+"', text) is not None and "enum" not in text


def _function(code, head, end):
    start, declaration = head
    labels = re.match(r"\s*(?:(?:public|private|protected)\s*:\s*)*", declaration)
    signature = declaration[labels.end() :]
    if "(" not in signature or re.match(r"[^(]*[^=!<>]=[^=]", signature.split("operator")[0].split("(")[0] + " "):
        return None  # a variable with its initializer
    name = re.search(r"(operator\s*\S+?|[\w:~]+)\s*\(", signature)
    label = name[1] if name else "(unnamed)"
    if label.isupper() and len(label) > 1:
        label = re.sub(r"\s+", " ", signature.strip())  # TEST(Suite, name)
    first = code.count("\n", 0, start + labels.end()) + 1
    return Function(label, first, code.count("\n", 0, end) + 1 - first + 1)
