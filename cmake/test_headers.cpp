// Only here to carry the precompiled header that the test programs share (cmake/Module.cmake).
