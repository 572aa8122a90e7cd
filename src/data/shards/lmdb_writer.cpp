#include "data/shards/lmdb_writer.h"

#include <lmdb.h>

#include <cerrno>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::data {
namespace {

[[noreturn]] void throw_lmdb_error(const char* what, int code, const std::filesystem::path& folder) {
  if (code > 0) {  // a number of the system
    errno = code;
    core::throw_errno(what, folder);
  }
  throw EnvironmentError(fmt::format("data: {} '{}': {}", what, folder.string(), mdb_strerror(code)),
                         "is it an LMDB that another program has damaged? Remove it and begin again");
}

}  // namespace

struct LmdbWriter::Environment {
  MDB_env* env = nullptr;
  ~Environment() { mdb_env_close(env); }
};

LmdbWriter::LmdbWriter(const std::filesystem::path& folder, uint64_t map_bytes)
    : environment_(std::make_unique<Environment>()), folder_(folder) {
  const auto check = [&](int code) {
    if (code != 0) throw_lmdb_error("cannot open LMDB", code, folder_);
  };
  check(mdb_env_create(&environment_->env));
  MDB_env* env = environment_->env;
  check(mdb_env_set_mapsize(env, map_bytes));
  // Read-ahead is for readers. The lock file is left out: the caller has a lock of its own, and mutexes in shared
  // memory do not work on all parallel file systems.
  check(mdb_env_open(env, folder_.c_str(), MDB_NOLOCK | MDB_NORDAHEAD, 0666));
  MDB_envinfo info;
  check(mdb_env_info(env, &info));
  map_bytes_ = info.me_mapsize;  // at least as large as what is there
}

LmdbWriter::~LmdbWriter() = default;

void LmdbWriter::commit(const Pairs& pairs) {
  const auto write = [&]() -> int {
    MDB_txn* transaction = nullptr;
    int code = mdb_txn_begin(environment_->env, nullptr, 0, &transaction);
    if (code != 0) return code;
    MDB_dbi table = 0;
    code = mdb_dbi_open(transaction, nullptr, 0, &table);
    for (const auto& [key_text, value_text] : pairs) {
      if (code != 0) break;
      MDB_val key{.mv_size = key_text.size(), .mv_data = const_cast<char*>(key_text.data())};
      MDB_val value{.mv_size = value_text.size(), .mv_data = const_cast<char*>(value_text.data())};
      code = mdb_put(transaction, table, &key, &value, 0);
    }
    if (code == 0) return mdb_txn_commit(transaction);
    mdb_txn_abort(transaction);
    return code;
  };
  int code = write();
  for (; code == MDB_MAP_FULL; code = write()) {
    map_bytes_ *= 2;
    ++num_grown_;
    const int resized = mdb_env_set_mapsize(environment_->env, map_bytes_);
    if (resized != 0) throw_lmdb_error("cannot enlarge the map of LMDB", resized, folder_);
  }
  if (code != 0) throw_lmdb_error("cannot write to LMDB", code, folder_);
}

}  // namespace lockstep::data
