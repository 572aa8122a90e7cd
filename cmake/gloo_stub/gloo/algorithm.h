#pragma once
#include "gloo/fwd.h"
