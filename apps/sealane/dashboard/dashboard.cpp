#include "dashboard/dashboard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

#include "base/bounded_queue.hpp"
#include "base/log.hpp"
#include "dashboard/api.hpp"
#include "dashboard/request.hpp"
#include "dashboard/web_files.hpp"
#include "output.hpp"
#include "serve/http_server.hpp"

namespace sealane::cli {
namespace {

// Of the time about one part in so many is spent looking: a store that is slow, or has much to count, is left alone
// for longer, but not so long that nobody would notice a change.
constexpr int kRestPerLook = 50;
constexpr std::chrono::seconds kRestMax{10};
constexpr std::chrono::seconds kLongRestMax{60};
// Whoever asked has gone by then.
constexpr std::chrono::seconds kPatience{25};

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

HttpAnswer Failure(int status, std::string_view code, std::string_view message, std::string_view hint) {
  HttpAnswer answer =
      AnswerError(Error(ErrorKind::kRejected, std::string(code), std::string(message)).WithHint(std::string(hint)));
  answer.status = status;
  return answer;
}

/// Views are addresses of their own, and all of them are the one page.
bool IsPage(std::string_view path) {
  constexpr std::array<std::string_view, 6> kPages = {"/", "/messages", "/aside", "/consumers", "/tasks", "/audit"};
  if (std::ranges::find(kPages, path) != kPages.end()) return true;
  for (const std::string_view parent : {"/messages/", "/tasks/"}) {
    if (path.starts_with(parent) && path.find('/', parent.size()) == std::string_view::npos) return true;
  }
  return false;
}

const WebFile* FindFile(std::string_view path) {
  const std::string_view wanted = IsPage(path) ? "/index.html" : path;
  if (wanted == path && !path.starts_with("/assets/")) return nullptr;
  const auto files = WebFiles();
  const auto found = std::ranges::find(files, wanted, &WebFile::path);
  return found == files.end() ? nullptr : &*found;
}

HttpAnswer AnswerFile(const WebFile& file, std::string_view known_tag) {
  HttpAnswer answer{.content_type = std::string(file.content_type),
                    .headers = {{"Cache-Control", "no-cache"}, {"ETag", std::string(file.tag)}}};
  if (known_tag == file.tag) {
    answer.status = 304;
  } else {
    answer.body = file.content;
  }
  return answer;
}

class ServedDashboard final : public Dashboard {
 public:
  ServedDashboard(DashboardOptions options, DeskOpeners open, Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        overview_(options_.facts, options_.look_every),
        desks_(std::move(open)),
        jobs_(options_.requests_max) {}

  ~ServedDashboard() override { Stop(); }

  void Stop() override {
    server_.reset();
    store_thread_.request_stop();
    jobs_.Close();
    if (store_thread_.joinable()) store_thread_.join();
  }

  Status Open() {
    SEALANE_RETURN_IF_ERROR(CheckDashboardAddress(options_.address));
    SEALANE_ASSIGN_OR_RETURN(
        server_, HttpServer::Start({.address = options_.address, .hint = "choose another address with --listen"},
                                   [this](HttpRequest request, HttpServer::Reply reply) {
                                     Receive(std::move(request), std::move(reply));
                                   }));
    url_ = "http://" + server_->address().ToString();
    store_thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
    ::pthread_setname_np(store_thread_.native_handle(), "dashboard");
    return Ok();
  }

  std::string url() const override { return url_; }

  std::string Progress() const override {
    return fmt::format("{} looks at the store, {} failed, {} requests", looks_.load(), failed_looks_.load(),
                       requests_.load());
  }

 private:
  struct Job {
    DashboardRequest request;
    HttpServer::Reply reply;
    BootTime since{};
  };

  // ---- on the server's thread ----

  void Receive(HttpRequest request, HttpServer::Reply reply) {
    ++requests_;
    const auto protect = [reply = std::move(reply)](HttpAnswer answer) {
      answer.headers.emplace_back("Content-Security-Policy", kPolicy);
      answer.headers.emplace_back("Referrer-Policy", "no-referrer");
      answer.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
      reply(std::move(answer));
    };
    if (!IsLoopbackHost(request.host)) {
      return protect(Failure(421, "wrong_host", "this is the dashboard of one machine, under no other name",
                             "use 127.0.0.1 or localhost in the address"));
    }
    const auto parsed = ParseDashboardTarget(request.target);
    if (!parsed) return protect(AnswerError(parsed.error()));
    if (request.method != "GET" && request.method != "HEAD") {
      HttpAnswer answer = Failure(405, "method_not_allowed", "this can only be read", "use GET or HEAD");
      answer.headers.emplace_back("Allow", "GET, HEAD");
      return protect(std::move(answer));
    }
    if (parsed->path == "/livez") return protect({.body = "{\"alive\":true}\n"});
    if (parsed->path == "/api/v1/overview") return protect({.body = overview_.Json(clock_.Now())});
    if (const WebFile* file = FindFile(parsed->path)) return protect(AnswerFile(*file, request.if_none_match));
    if (!IsDashboardApi(parsed->path)) {
      return protect(Failure(404, "not_found", "there is nothing here", "the page is at /"));
    }
    if (jobs_.PushFor(Job{*parsed, protect, clock_.SinceBoot()}, std::chrono::nanoseconds{0}, {}) !=
        PushOutcome::kPushed) {
      protect(Failure(503, "busy", "too many requests wait for the store", "try again in a moment"));
    }
  }

  // ---- on the store's thread ----

  void Run(std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (clock_.SinceBoot() >= next_look_) LookOnce(stop);
      auto job = jobs_.PopFor(std::max(next_look_ - clock_.SinceBoot(), BootTime{0}), stop);
      if (job && clock_.SinceBoot() - job->since < kPatience) job->reply(AnswerDashboardApi(job->request, desks_));
    }
  }

  BootTime RestAfter(BootTime begin, std::chrono::seconds longest) const {
    const BootTime now = clock_.SinceBoot();
    return now + std::clamp<BootTime>(kRestPerLook * (now - begin), options_.look_every, longest);
  }

  // What costs more than the positions of the routes has a rhythm of its own.
  void LookOnce(const std::stop_token& stop) {
    const BootTime begin = clock_.SinceBoot();
    const std::optional<Sighting> before = overview_.last();
    ++looks_;
    auto seen = LookAtRoutes(desks_, clock_, before ? &*before : nullptr);
    // The first opens connections, which later ones do not; and one that failed has waited for somebody who does not
    // answer, and is no burden to him.
    const bool tells = before && seen;
    next_look_ = tells ? RestAfter(begin, kRestMax) : clock_.SinceBoot() + options_.look_every;
    const BootTime rest = clock_.SinceBoot();
    if (seen && rest >= next_costly_ && !stop.stop_requested()) {
      LookAtTheRest(desks_, *seen);
      next_costly_ = tells ? RestAfter(rest, kLongRestMax) : clock_.SinceBoot() + options_.look_every;
    }
    if (seen) {
      overview_.Note(*std::move(seen));
      if (std::exchange(failing_, false)) LogInfo("dashboard sees the store again");
      return;
    }
    ++failed_looks_;
    if (!std::exchange(failing_, true)) {
      LogWarning("dashboard cannot read the store",
                 {{"code", seen.error().code()}, {"error", seen.error().message()}});
    }
    overview_.NoteFailure(seen.error());
  }

  const DashboardOptions options_;
  std::string url_;
  Clock& clock_;
  Overview overview_;
  Desks desks_;
  BoundedQueue<Job> jobs_;
  std::atomic<int> looks_ = 0;
  std::atomic<int> failed_looks_ = 0;
  std::atomic<int> requests_ = 0;
  bool failing_ = false;  // this and the next: of the store's thread
  BootTime next_look_{0};
  BootTime next_costly_{0};
  // Their threads use the others. The server goes first, then nobody has anything to ask any more.
  std::jthread store_thread_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

Status CheckDashboardAddress(const ListenAddress& address) {
  if (address.host == "::1" || address.host.starts_with("127.")) return Ok();
  return Error(
             ErrorKind::kMisconfigured, "not_loopback",
             fmt::format("the dashboard knows no users yet, so it does not listen on {}, where others could reach it",
                         address.ToString()))
      .WithHint("use an address like 127.0.0.1:8377, and reach it from elsewhere with ssh -L 8377:127.0.0.1:8377")
      .WithField("--listen");
}

Result<std::unique_ptr<Dashboard>> Dashboard::Start(DashboardOptions options, DeskOpeners open, Clock& clock) {
  auto dashboard = std::make_unique<ServedDashboard>(std::move(options), std::move(open), clock);
  SEALANE_RETURN_IF_ERROR(dashboard->Open());
  return std::unique_ptr<Dashboard>(std::move(dashboard));
}

}  // namespace sealane::cli
