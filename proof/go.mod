module github.com/redmux/redmux/proof

go 1.25.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/gomodule/redigo v1.9.3
	github.com/redmux/redmux v0.1.0
	github.com/stretchr/testify v1.12.1
	github.com/tidwall/redcon v1.6.2
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/mod v0.35.0
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/tidwall/btree v1.1.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
)
