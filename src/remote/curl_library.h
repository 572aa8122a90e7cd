#pragma once
#include <curl/curl.h>

namespace lockstep::remote {

/// The functions of libcurl that are used, found in the shared library when they are first needed: with the libraries
/// that it needs in turn it would double the time in which the program starts.
struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

/// EnvironmentError where there is no libcurl. Thread safe.
const CurlLibrary& curl_library();

}  // namespace lockstep::remote
