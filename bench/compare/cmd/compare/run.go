package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/internal/redistest"
)

// run does what the command line says.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parse(args, stdout)
	if err != nil {
		return err
	}
	switch {
	case len(f.FromJSON) > 0:
		data, err := readData(f.FromJSON)
		if err != nil {
			return err
		}
		return write(f, data, stdout)
	case f.Quick:
		return quick(ctx, f, quickRounds, stdout)
	}
	return full(ctx, f, stdout, stderr)
}

// full measures everything and writes the report.
func full(ctx context.Context, f *flags, stdout, stderr io.Writer) error {
	if _, ok := redistest.Find(); !ok {
		return redistest.ErrNoServer
	}
	// There is a file in any case: an hour of measuring must not be lost to a
	// report that could not be written.
	if f.JSON == "" {
		file, err := os.CreateTemp("", "compare*.json")
		if err != nil {
			return err
		}
		f.JSON = file.Name()
		_ = file.Close()
	}
	plan := f.plan()
	if len(plan) == 0 {
		return usageError{errors.New("nothing is left to measure: TLS is measured with the most masters only")}
	}
	windows, took := f.estimate(plan)
	fmt.Fprintf(stderr, "%d windows, about %v\n", windows, took.Round(time.Minute))
	r, err := newRunner(f, plan, stderr)
	if err != nil {
		return err
	}
	defer r.close()
	err = r.measure(ctx, r.saver(f.JSON))
	fmt.Fprintln(stdout, "raw data:", f.JSON)
	if err != nil {
		return err
	}
	return write(f, r.data, stdout)
}

// readData reads the first file and lets the others correct it.
func readData(paths []string) (all *report.Data, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		data, err := report.Read(file)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = data
		} else if err := all.Replace(data); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// write writes the report and the chart.
func write(f *flags, data *report.Data, stdout io.Writer) error {
	return errors.Join(
		writeFile(f.Out, data.WriteMarkdown, stdout),
		writeFile(f.Chart, data.WriteChart, stdout),
	)
}

// writeFile replaces a file only by a whole one.
func writeFile(path string, content func(io.Writer) error, stdout io.Writer) error {
	var b bytes.Buffer
	if err := content(&b); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "wrote", path)
	return nil
}
