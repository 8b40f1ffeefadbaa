// Only here to carry the precompiled headers that all libraries and all test programs share
// (cmake/Module.cmake).
