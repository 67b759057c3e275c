#include <cstdio>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/mmap.h"
#include "cli/eval/eval.h"
#include "files/json.h"

namespace ingot {
namespace {

// The output of `program -dc path`.
std::string unpacked(const std::string& program, const std::string& path) {
  MappedFile::open(path);  // says what is wrong with it
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((program + " -dc -- " + quoted + "' 2>/dev/null").c_str(), "r"),
                                             pclose);
  if (!pipe) throw Error("[eval] cannot start {}", program);
  std::string text;
  char buffer[65536];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe.get())) text.append(buffer, n);
  if (pclose(pipe.release()) != 0) throw Error("[eval] {} cannot unpack '{}'", program, path);
  if (text.empty()) throw Error("[eval] {} gives nothing for '{}'", program, path);
  return text;
}

TaskItem json_item(const std::string& line, const std::string& where) {
  const Json value = parse_json(line, where);
  const JsonObject& object = as_object(value, where);
  TaskItem item;
  item.query = get_string(object, "query");
  item.gold = static_cast<int>(get_int(object, "gold", -1, 0, 1000));
  const JsonArray* choices = find_array(object, "choices");
  if (!choices || choices->empty()) throw Error("[eval] {}: no choices", where);
  for (const Json& choice : *choices) item.choices.emplace_back(as_string(choice, "choices"));
  if (static_cast<size_t>(item.gold) >= item.choices.size()) throw Error("[eval] {}: gold is {}", where, item.gold);
  return item;
}

// HellaSwag as text: the context, the right ending's number, four endings.
TaskItem block_item(std::istream& lines, std::string context, const std::string& where) {
  TaskItem item;
  item.query = std::move(context);
  std::string line;
  if (!std::getline(lines, line) || line.size() != 1 || line[0] < '0' || line[0] > '3') {
    throw Error("[eval] {}: expected the number of the right ending", where);
  }
  item.gold = line[0] - '0';
  for (int i = 0; i < 4; ++i) {
    if (!std::getline(lines, line)) throw Error("[eval] {}: {} of four endings", where, i);
    item.choices.push_back(line);
  }
  return item;
}

}  // namespace

std::vector<TaskItem> read_task(const std::string& path) {
  std::string text;
  if (path.ends_with(".bz2")) {
    text = unpacked("bzip2", path);
  } else if (path.ends_with(".xz")) {
    text = unpacked("xz", path);
  } else {
    text = read_text_file(path);
  }
  std::vector<TaskItem> items;
  std::istringstream lines(std::move(text));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}, question {}", path, items.size() + 1);
    items.push_back(line[0] == '{' ? json_item(line, where) : block_item(lines, line, where));
  }
  return items;
}

std::vector<TaskItem> read_questions(const std::string& task, const std::string& path, int limit) {
  task_joint(task);  // an unknown name is told before the file is read
  std::vector<TaskItem> items = read_task(path);
  if (items.empty()) throw Error("[eval] '{}' holds no question", path);
  if (limit && items.size() > static_cast<size_t>(limit)) items.resize(static_cast<size_t>(limit));
  return items;
}

JsonObject task_json(const std::string& name, const TaskScore& score) {
  const double plain = score.accuracy(), normalized = score.accuracy_normalized();
  return {{"task", name},
          {"accuracy", plain},
          {"accuracy_error", score.error_of(plain)},
          {"accuracy_norm", normalized},
          {"accuracy_norm_error", score.error_of(normalized)},
          {"n", score.n}};
}

}  // namespace ingot
