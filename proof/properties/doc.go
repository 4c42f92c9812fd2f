// Package properties tests what must always be true of the decisions of
// internal/pure, for random histories. It has tests only. They are not beside the
// code because rapid must not become a dependency of programs that import
// redlock.
package properties
