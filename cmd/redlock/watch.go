package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// watching are the flags of commands that can show things again and again.
type watching struct {
	Watch bool          `short:"w" help:"Show it again and again, until an interrupt, which is then no failure."`
	Every time.Duration `default:"2s" help:"How often, with --watch (${default})."`
	JSON  bool          `name:"json" help:"Print JSON; with --watch one object per line."`
}

// shortestWatch is as often as a person can read and a node should be asked.
const shortestWatch = 100 * time.Millisecond

// Validate refuses what makes no sense. Package kong calls it.
func (w *watching) Validate() error {
	if w.Every < shortestWatch {
		return fmt.Errorf("--every must be %v at least", shortestWatch)
	}
	return nil
}

// A view is what there is to show at a moment, in three forms, of which one is used.
type view struct {
	page string // some lines
	line string // the same in one, without its end
	json any
}

// show prints what look returns, once, or with --watch until the context ends: on a terminal always in the same place, else
// line by line. The error is look's; a watch goes on after an error that comes with a view, since that is what one watches for.
// An interrupt ends it, and that is what it was waiting for: nil.
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
			return err // there is nothing to show, and never will be
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

// interrupted is the signal that ended a context, nil if none did.
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

// redraw puts a page in the place of the one before: from the first line on, each cleared to its end, and then what is below.
func redraw(page string) string {
	return "\x1b[H" + strings.ReplaceAll(page, "\n", "\x1b[K\n") + "\x1b[J"
}
