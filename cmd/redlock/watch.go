package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// watching has the flags of commands that can show something repeatedly.
type watching struct {
	Watch bool          `short:"w" help:"Show it repeatedly until an interrupt, which then counts as success."`
	Every time.Duration `default:"2s" help:"How often, with --watch (${default})."`
	JSON  bool          `name:"json" help:"Print JSON; with --watch one object per line."`
}

// shortestWatch is as fast as a person can read, and as often as a node should
// be asked.
const shortestWatch = 100 * time.Millisecond

// Validate is called by package kong.
func (w *watching) Validate() error {
	if w.Every < shortestWatch {
		return fmt.Errorf("--every must be at least %v", shortestWatch)
	}
	return nil
}

// A view is what to show, in three forms.
type view struct {
	page string // some lines
	line string // the same in one line, without a line end
	json any
}

// show prints what look returns, once, or with --watch until the context ends:
// on a terminal always in the same place, otherwise line by line. It returns
// the error of look. A watch goes on after an error that comes with a view,
// since such errors are what one watches for, and an interrupt ends it with
// nil.
func (w *watching) show(ctx context.Context, p *process, look func(ctx context.Context) (view, error)) error {
	place := screenOf(p.stdout)
	for {
		begun := time.Now()
		v, err := look(ctx)
		if ended := interrupted(ctx); ended != nil {
			if w.Watch {
				return nil
			}
			return ended
		}
		if v.json == nil {
			return err // there is nothing to show, and there will not be
		}
		if failed := w.print(p.stdout, place, v); failed != nil {
			return failed
		}
		if !w.Watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(begun.Add(w.Every))):
		}
	}
}

// interrupted returns the signal that ended a context, or nil.
func interrupted(ctx context.Context) error {
	var signal *errInterrupted
	if errors.As(context.Cause(ctx), &signal) {
		return signal
	}
	return nil
}

func (w *watching) print(out io.Writer, place screen, v view) error {
	switch {
	case w.JSON:
		return printJSON(out, v.json, !w.Watch)
	case !w.Watch:
		_, err := io.WriteString(out, v.page)
		return err
	case place.terminal:
		_, err := io.WriteString(out, redraw(v.page))
		return err
	default:
		_, err := fmt.Fprintf(out, "%s %s\n", time.Now().Format(time.RFC3339), v.line)
		return err
	}
}

// redraw writes a page over the one before: it clears the rest of each line,
// and what is below.
func redraw(page string) string {
	return "\x1b[H" + strings.ReplaceAll(page, "\n", "\x1b[K\n") + "\x1b[J"
}
