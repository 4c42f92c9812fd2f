//go:build unix

package doctest

// notRun are the commands of sh blocks that these tests do not run, each with
// the reason. The targets and packages that they name must exist all the same.
var notRun = map[string]string{
	"go get github.com/redmux/redmux/redlock": "adds the module to another one, which is what the release check does",
	"make test":                              "runs this test",
	"make servers":                           "fetches servers from a mirror, which a test does not depend on; CI runs it",
	"make servers SUITE=full":                "minutes for each server",
	"ONLY='redis 8' make servers SUITE=full": "minutes for each server",
	"make faults FOR=8h FAULTS=--soak":       "eight hours",
	"make fuzz INPUTS=1e8":                   "minutes; CI runs a shorter form",
	"make lint":                              "CI runs it",
	"make sim SEEDS=1000":                    "minutes",
	"make mutants ONLY=fence":                "minutes",
	"make fuzz":                              "minutes; CI runs a shorter form",
	"make contrib":                           "make check runs it",
	"make check":                             "half an hour; CI runs it",
	"make check FULL=1":                      "hours",
	"make race":                              "minutes; CI runs it",
	"make help":                              "lists the targets, which change",
	"make bench CASE=quick":                  "most of a minute; CI runs it",
	"make bench CASE=faults":                 "ten minutes",
	"make sim":                               "hours; CI runs a shorter form",
	"make model":                             "minutes; CI runs a shorter form",
	"make mutants":                           "a quarter of an hour",
	"make faults FOR=15m":                    "a quarter of an hour; CI runs a minute",
}
