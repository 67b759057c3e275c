"""A model that says what it was told: each token has one successor, so that answers are known letter by letter.

The weights are a table: attention and MLP are zero, a token's embedding is a unit vector and the head turns it into the
next token. The chat template ends the prompt with a control token that chooses the answer.
"""
import array
import json
import struct

import models

PLAIN = "Hello from the other side, said the model: äöü and 😀."
CITY = '{"city": "Zürich", "days": [1, 2]}'
CALL = 'I will look.\n<tool_call>\n{"name": "get_weather", "arguments": ' + CITY + "}\n</tool_call>"
TWO_CALLS = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
)
AFTER = "It is 18 degrees there."
THOUGHT = "First I weigh this against that."
THINK = "<think>\n" + THOUGHT + "\n</think>\n\nThen I answer."

ANSWERS = {"<|plain|>": PLAIN, "<|call|>": CALL, "<|two|>": TWO_CALLS, "<|after|>": AFTER, "<|think|>": THINK}

TEMPLATE = """\
{%- if tools %}{{ '<s>system\\n' }}Call as <tool_call>{"name": ..., "arguments": ...}</tool_call>
{%- for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '</s>' }}{% endif %}
{%- for message in messages %}{{ '<s>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}{% endfor %}
{{- '</s>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<s>assistant\\n' }}
{%- if messages[-1].role == 'tool' %}<|after|>{% elif 'two' in messages[-1].content and tools %}<|two|>
{%- elif tools %}<|call|>{% elif 'think' in messages[-1].content %}<|think|>{% else %}<|plain|>{% endif %}{% endif %}
{#- The reasoning stands between <think> and </think>. #}"""


def pieces_of(text, used):
    """The text in pieces of two bytes or more that occur nowhere else: each becomes a token with one successor."""
    data, pieces = text.encode(), []
    while data:
        size = 2
        while data[:size] in used and size < len(data):
            size += 1
        if data[:size] in used or len(data) - size == 1:
            size = len(data)
        if data[:size] in used:  # the end of another answer: made longer by what stands before it
            data = pieces.pop() + data
            size = len(data)
        pieces.append(data[:size])
        used.add(data[:size])
        data = data[size:]
    return pieces


def make(directory, answers=ANSWERS, template=TEMPLATE, endless=False, positions=4096):
    """Writes the model and returns its directory. `answers`: by the control token with which the template asks for them.
    `endless`: an answer begins again at its end."""
    tokenizer = models.tiny_tokenizer()
    vocab = tokenizer["model"]["vocab"]
    used, successor = set(), {}

    def add(name, special):
        vocab[name] = len(vocab)
        if special:
            tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": vocab[name], "content": name})
        return vocab[name]

    for start, text in answers.items():
        begin = at = add(start, True)
        for piece in pieces_of(text, used):
            token = add("".join(map(models.byte_name, piece)), False)
            successor[at], at = token, token
        successor[at] = successor[begin] if endless else vocab["</s>"]
    directory.mkdir(parents=True, exist_ok=True)
    config = json.loads((models.checkpoint() / "config.json").read_text())
    width = -(-len(successor) // 64) * 64
    config.update(vocab_size=len(vocab), hidden_size=width, num_hidden_layers=1, max_position_embeddings=positions)
    write_weights(directory / "model.safetensors", config, successor)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text("{}")
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "chat_template": template}
    (directory / "tokenizer_config.json").write_text(json.dumps(names))
    return directory


def tokens_of(directory, answer):
    """The ids of an answer's tokens, in a model that has this answer alone."""
    vocab = json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"]
    return [vocab["".join(map(models.byte_name, piece))] for piece in pieces_of(answer, set())]


def write_weights(path, config, successor):
    width, vocab, inner = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    embedding, head = array.array("f", bytes(4 * vocab * width)), array.array("f", bytes(4 * vocab * width))
    for place, (token, following) in enumerate(successor.items()):
        embedding[token * width + place] = 1
        head[following * width + place] = 8
    layer = "model.layers.0."
    ones = array.array("f", [1]) * width
    tensors = {
        "model.embed_tokens.weight": ([vocab, width], embedding),
        "lm_head.weight": ([vocab, width], head),
        "model.norm.weight": ([width], ones),
        layer + "input_layernorm.weight": ([width], ones),
        layer + "post_attention_layernorm.weight": ([width], ones),
    }
    for name, rows, columns in (
        ("self_attn.q_proj", queries, width), ("self_attn.k_proj", keys, width), ("self_attn.v_proj", keys, width),
        ("self_attn.o_proj", width, queries), ("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width),
        ("mlp.down_proj", width, inner),
    ):
        tensors[f"{layer}{name}.weight"] = ([rows, columns], array.array("f", bytes(4 * rows * columns)))
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
