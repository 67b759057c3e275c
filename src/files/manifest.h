// A manifest: the checksums of a model's files, as a whole and region by region, so that damage is found and named.
#pragma once

#include <string>
#include <string_view>

namespace ingot {

// Writes the manifest of `model_path` (a GGUF file with all its parts, a .safetensors file, or a directory) to
// `out_path`: for each file its bytes, its SHA-256 and the SHA-256 of its regions, which cover every byte: "metadata",
// each tensor by name, "padding". Other files of a directory (.json .model .txt .jinja .tiktoken, tok*.bin) are one
// region, "file".
void write_manifest(const std::string& model_path, const std::string& out_path);

// Reads every byte of the model's files. Throws Error "[manifest] …" naming the file and the first region that differs,
// a file that is missing or has another size, one that loading the model would read and the manifest does not list, or
// what is wrong with the manifest. The model is not parsed.
void verify_manifest(const std::string& model_path, const std::string& manifest_path);

// Whether loading the model of a directory may read a file of this name for anything but its weights.
bool is_side_file(std::string_view name);

}  // namespace ingot
