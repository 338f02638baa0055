#include "demo/side_writer.hpp"

namespace sealane::demo {

SideWriter::SideWriter(std::unique_ptr<Database> database, FirstFailure& failure)
    : database_(std::move(database)), failure_(failure), thread_([this] { Work(); }) {}

SideWriter::~SideWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SideWriter::Write(std::string sql, std::vector<std::string> values) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(sql), std::move(values)});
  }
  changed_.notify_one();
}

void SideWriter::Work() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (const Status written = database_->Execute(job.sql, job.values); !written) failure_.Note(written.error());
  }
}

}  // namespace sealane::demo
