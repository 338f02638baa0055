// Owns the precompiled header that every test program shares; see CMakeLists.txt.
int main() {}
