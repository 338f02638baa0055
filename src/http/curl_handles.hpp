#pragma once

#include <memory>

#include <curl/curl.h>

namespace sealane::http {

struct CloseMulti {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};
using MultiHandle = std::unique_ptr<CURLM, CloseMulti>;

struct CloseEasy {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using EasyHandle = std::unique_ptr<CURL, CloseEasy>;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

}  // namespace sealane::http
