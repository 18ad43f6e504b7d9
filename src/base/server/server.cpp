// SPDX-License-Identifier: Apache-2.0
// One thread talks to all clients and never waits; pages are made by others.
#include "server/server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <exception>
#include <set>
#include <utility>

namespace shardsweep::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace web = boost::beast::http;
using Tcp = asio::ip::tcp;
using beast::error_code;

constexpr auto look_every = std::chrono::milliseconds(500);
constexpr std::size_t page_makers = 4;

/// Pages bring their own script and style; nothing is loaded from anywhere, framed or posted.
constexpr const char* policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Page plain(unsigned status, std::string_view why) {
  return {status, std::make_shared<const std::string>(fmt::format("{}\n", why)),
      "text/plain; charset=utf-8"};
}

class Connection;

/// State that all connections share. Only the thread of `io` touches it.
class House {
 public:
  explicit House(const ServerSetup& its) : serving(its) {}

  void open();
  Ended stay() {
    io.run();
    return ended_;
  }
  /// An admitted request, until its answer was taken.
  void begin_work() { ++busy_; }
  void end_work() {
    --busy_;
    wait_for_idleness();
  }
  /// Looks out for changes: one more reader waits.
  void look_out() {
    if (!std::exchange(looking_, true)) look();
  }
  void wait_for_idleness();

  const ServerSetup& serving;
  std::size_t connections = 0;
  std::set<Connection*> streams;

 private:
  void accept();
  void look();
  void tell(const std::string& version);
  void end(Ended how) {
    ended_ = how;
    io.stop();
  }

  Ended ended_ = Ended::by_signal;
  std::size_t busy_ = 0;
  bool looking_ = false;

 public:
  // Stands below `connections` and `streams`: connections are destroyed with it and still use both.
  asio::io_context io{1};

 private:
  Tcp::acceptor acceptor_{io};
  asio::signal_set signals_{io, SIGINT, SIGTERM};
  asio::steady_timer idle_{io};
  asio::steady_timer next_look_{io};
  asio::steady_timer pause_{io};

 public:
  asio::thread_pool makers{page_makers};

 private:
  asio::thread_pool watcher_{1};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(House& house, Tcp::socket socket) : house_(house), stream_(std::move(socket)) {
    ++house_.connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    --house_.connections;
    house_.streams.erase(this);
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits().header_bytes));
    parser_->body_limit(limits().body_bytes);
    stream_.expires_after(limits().request);
    web::async_read_header(stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->judge(error); });
  }

  void refuse(unsigned status, std::string_view why) {
    keep_ = false;
    write(plain(status, why));
  }

  /// Answers nothing to one who has gone or was too slow.
  void refuse(error_code error) {
    if (error == web::error::header_limit || error == web::error::buffer_overflow)
      return refuse(431, "The request's header is too long.");
    if (error == web::error::body_limit) return refuse(413, "The question is too long.");
    const bool is_gone = error == web::error::end_of_stream || error == web::error::partial_message;
    if (!is_gone && error.category() == web::make_error_code(web::error::bad_target).category())
      refuse(400, "This is not an HTTP request.");
  }

  /// Tells a reader who waits for a change.
  void tell(const std::string& version) {
    if (writing_ || version == seen_) return;
    seen_ = version;
    writing_ = true;
    told_ = fmt::format("event: changed\ndata: {}\n\n", version);
    stream_.expires_after(limits().piece);
    asio::async_write(
        stream_, asio::buffer(told_), [self = shared_from_this()](error_code error, std::size_t) {
          self->writing_ = false;
          if (error) self->leave();
        });
  }

 private:
  [[nodiscard]] const Limits& limits() const { return house_.serving.limits; }

  [[nodiscard]] std::string_view header(web::field name, std::string_view unclear) const {
    const auto& message = parser_->get();
    const auto count = message.count(name);
    if (count == 0) return {};
    const auto value = message[name];
    return count > 1 || value.empty() ? unclear : std::string_view(value.data(), value.size());
  }
  [[nodiscard]] std::string_view header(const char* name) const {
    const auto value = parser_->get()[name];
    return {value.data(), value.size()};
  }

  void judge(error_code error) {
    if (error) return refuse(error);
    const auto& message = parser_->get();
    const auto text = [](beast::string_view one) {
      return std::string_view(one.data(), one.size());
    };
    auto asked = admitted({.method = text(message.method_string()),
                              .target = text(message.target()),
                              .host = header(web::field::host, ""),
                              .origin = header(web::field::origin, "null"),
                              .fetch_site = header("Sec-Fetch-Site"),
                              .fetch_mode = header("Sec-Fetch-Mode")},
        house_.serving.token, house_.serving.posted);
    if (!asked) return refuse(asked.error().status, asked.error().why);
    head_ = message.method() == web::verb::head;
    if (message.method() != web::verb::post) {
      keep_ = parser_->is_done() && message.keep_alive();
      return answer(*std::move(asked));
    }
    web::async_read(stream_, buffer_, *parser_,
        [self = shared_from_this(), asked = *std::move(asked)](
            error_code fault, std::size_t) mutable {
          if (fault) return self->refuse(fault);
          self->keep_ = self->parser_->get().keep_alive();
          asked.body = std::move(self->parser_->get().body());
          self->answer(std::move(asked));
        });
  }

  void answer(PageRequest asked) {
    works_ = true;
    house_.begin_work();
    if (asked.page == "events") return listen(asked.values["seen"]);
    asio::post(house_.makers, [self = shared_from_this(), asked = std::move(asked)]() mutable {
      Page page;
      try {
        page = self->house_.serving.page(asked);
      } catch (const std::exception& error) {
        page = plain(500, error.what());
      }
      auto& io = self->house_.io;
      // The last to hold a connection is the thread that all of them belong to.
      asio::post(io, [self = std::move(self), page = std::move(page)]() mutable {
        self->write(std::move(page));
      });
    });
  }

  void set_header(unsigned status, const std::string& type) {
    answer_.emplace();
    answer_->version(11);
    answer_->result(status);
    answer_->set(web::field::content_type, type);
    answer_->set(web::field::cache_control, "no-store");
    answer_->set("Content-Security-Policy", policy);
    answer_->set("X-Content-Type-Options", "nosniff");
    answer_->set("Referrer-Policy", "no-referrer");
    answer_->set("Cross-Origin-Resource-Policy", "same-origin");
    answer_->set("Cross-Origin-Opener-Policy", "same-origin");
    answer_->keep_alive(keep_);
  }

  void write(Page page) {
    text_ = std::move(page.text);
    set_header(page.status, page.type);
    answer_->body() = {text_->data(), text_->size()};
    answer_->prepare_payload();
    serializer_.emplace(*answer_);
    serializer_->split(head_);
    write_on();
  }

  void write_on() {
    stream_.expires_after(limits().piece);
    web::async_write_some(
        stream_, *serializer_, [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->stop_work();
          const bool done =
              self->head_ ? self->serializer_->is_header_done() : self->serializer_->is_done();
          if (!done) return self->write_on();
          self->stop_work();
          if (self->keep_) return self->read();
          error_code ignored;
          self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
          self->drain(limits_of_drain);
        });
  }

  /// Reads the rest of a refused client's request: closing at once would discard the answer.
  void drain(std::size_t most) {
    stream_.expires_after(std::chrono::seconds(2));
    stream_.async_read_some(asio::buffer(waste_),
        [self = shared_from_this(), most](error_code error, std::size_t bytes) {
          if (!error && bytes < most) self->drain(most - bytes);
        });
  }

  void listen(const std::string& seen) {
    keep_ = false;
    if (house_.streams.size() >= limits().streams)
      return write(plain(503, "Too many pages are open."));
    seen_ = seen;
    set_header(200, "text/event-stream");
    serializer_.emplace(*answer_);
    serializer_->split(true);
    stream_.expires_after(limits().piece);
    web::async_write_header(
        stream_, *serializer_, [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->stop_work();
          self->house_.streams.insert(self.get());
          self->house_.look_out();
          self->watch_end();
        });
  }

  /// A reader says nothing more; its end is what comes.
  void watch_end() {
    stream_.expires_never();
    stream_.async_read_some(
        asio::buffer(waste_), [self = shared_from_this()](error_code error, std::size_t) {
          if (error) return self->leave();
          self->watch_end();
        });
  }

  void stop_work() {
    if (std::exchange(works_, false)) house_.end_work();
  }
  void leave() {
    house_.streams.erase(this);
    stop_work();
    error_code ignored;
    stream_.socket().close(ignored);
  }

  static constexpr std::size_t limits_of_drain = 1 << 20;
  static constexpr std::size_t most_held = 64 << 10;

  House& house_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{most_held};
  std::optional<web::request_parser<web::string_body>> parser_;
  std::shared_ptr<const std::string> text_;
  std::optional<web::response<web::span_body<const char>>> answer_;
  std::optional<web::response_serializer<web::span_body<const char>>> serializer_;
  bool keep_ = false;
  bool head_ = false;
  bool works_ = false;
  bool writing_ = false;
  std::string seen_;
  std::string told_;
  std::array<char, 4096> waste_{};
};

void House::open() {
  const Tcp::endpoint here(asio::ip::address_v4::loopback(), serving.port);
  acceptor_.open(here.protocol());
  acceptor_.set_option(Tcp::acceptor::reuse_address(true));
  acceptor_.bind(here);
  acceptor_.listen();
  signals_.async_wait([this](error_code error, int) {
    if (!error) end(Ended::by_signal);
  });
  accept();
  wait_for_idleness();
  serving.begun(acceptor_.local_endpoint().port());
}

void House::accept() {
  acceptor_.async_accept([this](error_code error, Tcp::socket socket) {
    if (error) {
      // No descriptor is left: the next one who goes gives one back.
      pause_.expires_after(look_every);
      return pause_.async_wait([this](error_code) { accept(); });
    }
    const bool full = connections >= serving.limits.connections;
    const auto connection = std::make_shared<Connection>(*this, std::move(socket));
    full ? connection->refuse(503, "Too many connections are open.") : connection->read();
    accept();
  });
}

void House::wait_for_idleness() {
  idle_.expires_after(serving.idle);
  idle_.async_wait([this](error_code error) {
    if (error) return;
    busy_ > 0 ? wait_for_idleness() : end(Ended::idle);
  });
}

void House::look() {
  asio::post(watcher_, [this] {
    auto version = serving.version();
    asio::post(io, [this, version = std::move(version)] { tell(version); });
  });
}

void House::tell(const std::string& version) {
  for (Connection* const reader : std::set(streams))
    reader->tell(version);
  next_look_.expires_after(look_every);
  next_look_.async_wait([this](error_code error) {
    looking_ = !error && !streams.empty();
    if (looking_) look();
  });
}

}  // namespace

Result<Ended> serve(const ServerSetup& serving) {
  try {
    House house(serving);
    house.open();
    return house.stay();
  } catch (const boost::system::system_error& error) {
    return fault(FaultKind::unavailable, "127.0.0.1:{}: {}", serving.port, error.code().message());
  }
}

}  // namespace shardsweep::server
