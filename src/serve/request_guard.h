// What goes wrong while a request is worked on ends this request and no other.
#pragma once

#include <new>

#include "serve/api/api_error.h"

namespace ingot {

// Runs body(). What it throws goes to fail(ApiError); where that throws too, there being no memory even for the error,
// to give_up(), which must not throw.
template <class Body, class Fail, class GiveUp>
void guard_request(Body&& body, Fail&& fail, GiveUp&& give_up) {
  try {
    try {
      body();
    } catch (const ApiError& error) {
      fail(error);
    } catch (const std::bad_alloc&) {
      fail(server_busy("there is no memory for this request now"));
    } catch (...) {
      fail(internal_error());
    }
  } catch (...) {
    give_up();
  }
}

}  // namespace ingot
