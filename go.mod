module github.com/redmux/redmux

go 1.25.0

// The lowest versions that work, so that a program which imports the library
// keeps its own. testdata/lowest.sh tests with them; the workspace has newer ones.
require (
	github.com/redis/rueidis v1.0.69 // returns a client of a node that is down
	github.com/stretchr/testify v1.7.2 // requires a yaml.v3 without known faults
	github.com/valyala/bytebufferpool v1.0.0
	github.com/yuin/gopher-lua v1.1.1 // math.max takes numbers in texts
)

require (
	github.com/davecgh/go-spew v1.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
