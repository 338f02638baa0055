#include "serve/probe_server.hpp"

#include <utility>

#include "serve/http_server.hpp"

namespace sealane {
namespace {

class HttpProbeServer final : public ProbeServer {
 public:
  HttpProbeServer(ProbeServerOptions options, Clock& clock, std::function<ServedStats()> stats)
      : options_(std::move(options)), clock_(clock), stats_(std::move(stats)) {}

  Status Open() {
    HttpServerOptions http;
    http.address = options_.address;
    http.hint = "choose another address with --listen HOST:PORT, or --listen off";
    http.idle_max = options_.idle_max;
    http.connections_max = options_.connections_max;
    http.header_max = options_.header_max;
    SEALANE_ASSIGN_OR_RETURN(server_, HttpServer::Start(std::move(http), [this](const HttpRequest& request,
                                                                                const HttpServer::Reply& reply) {
                               reply(Answer(request));
                             }));
    return Ok();
  }

  ListenAddress address() const override { return server_->address(); }

 private:
  HttpAnswer Answer(const HttpRequest& request) const {
    const ServedStats served = stats_();
    ProbeAnswer answer = AnswerProbe(request.method, request.target,
                                     {.relays = served.relays,
                                      .build = &options_.build,
                                      .now = clock_.Now(),
                                      .beat_max = options_.beat_max,
                                      .consumers = served.consumers,
                                      .dispatchers = served.dispatchers,
                                      .receive = served.receive ? &*served.receive : nullptr});
    HttpAnswer http{
        .status = answer.status, .content_type = std::move(answer.content_type), .body = std::move(answer.body)};
    if (answer.allow) http.headers = {{"Allow", "GET, HEAD"}};
    return http;
  }

  const ProbeServerOptions options_;
  Clock& clock_;
  const std::function<ServedStats()> stats_;
  // Last: its thread uses the others.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

Result<std::unique_ptr<ProbeServer>> ProbeServer::Start(ProbeServerOptions options, Clock& clock,
                                                        std::function<ServedStats()> stats) {
  auto server = std::make_unique<HttpProbeServer>(std::move(options), clock, std::move(stats));
  SEALANE_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<ProbeServer>(std::move(server));
}

}  // namespace sealane
