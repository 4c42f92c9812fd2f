package adapters

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redmux/redmux/contrib/fencing"
)

// What docs/fencing.md shows, as it is there. TestDocumentShowsThis compares
// the two, and the other tests run it.

var underNumber = rueidis.NewLuaScript(fencing.RedisScript)

func payInRedis(ctx context.Context, protected rueidis.Client, id, state string) error {
	number, err := fencing.FromContext(ctx)
	if err != nil {
		return err
	}
	key := "{invoice:" + id + "}"
	return underNumber.Exec(ctx, protected, []string{key + ":fence", key},
		[]string{strconv.FormatUint(number, 10), "SET", key, state}).Error()
}

func payInSQL(ctx context.Context, db *sql.DB, statement, id, state string) error {
	number, err := fencing.FromContext(ctx)
	if err != nil {
		return err
	}
	return fencing.Changed(db.ExecContext(ctx, statement, id, state, number))
}

func payOverHTTP(ctx context.Context, url, state string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(state))
	if err != nil {
		return err
	}
	if err := fencing.SetHeader(request); err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusPreconditionFailed:
		return fencing.ErrStale
	}
	return errors.New(response.Status)
}

func servePayments(db *sql.DB, statement string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, err := fencing.FromHeader(r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		state, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
		if err != nil {
			http.Error(w, "the state cannot be read", http.StatusBadRequest)
			return
		}
		err = fencing.Changed(db.ExecContext(r.Context(), statement, r.PathValue("id"), string(state), number))
		switch {
		case fencing.Refused(err):
			w.WriteHeader(http.StatusPreconditionFailed)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

// A bucket stands for the client of an object store. Put writes with If-Match:
// etag or, if etag is empty, with If-None-Match: *. If the store refuses that
// (412, or 409 while another write is going on), it returns fencing.ErrChanged.
type bucket interface {
	Get(ctx context.Context, name string) (etag string, content []byte, err error) // no etag: there is no object
	Put(ctx context.Context, name, etag string, content []byte) error
}

type invoice struct {
	State string `json:"state"`
	Fence uint64 `json:"fence"` // within the content, so that another number is another ETag
}

func payInStore(ctx context.Context, store bucket, id, state string) error {
	number, err := fencing.FromContext(ctx)
	if err != nil {
		return err
	}
	content, err := json.Marshal(invoice{state, number})
	if err != nil {
		return err
	}
	return fencing.WriteObject(ctx, number, func(ctx context.Context) (string, uint64, error) {
		etag, content, err := store.Get(ctx, id)
		if err != nil || etag == "" {
			return "", 0, err
		}
		var seen invoice
		err = json.Unmarshal(content, &seen)
		return etag, seen.Fence, err
	}, func(ctx context.Context, etag string) error {
		return store.Put(ctx, id, etag, content)
	})
}
