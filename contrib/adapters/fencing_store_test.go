package adapters

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/redmux/redmux/contrib/fencing"
	"github.com/stretchr/testify/require"
)

// An objectStore is an HTTP server with conditional writes, as Amazon S3 has
// them: the ETag is a hash of the content alone, and metadata are headers.
type objectStore struct {
	mu      sync.Mutex // guards the following
	objects map[string]object
}

type object struct {
	content []byte
	fence   string // in the metadata, for those who want it there
}

func (o object) etag() string { return fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(o.content))) }

const storeMetadata = "X-Amz-Meta-Fence"

func newObjectStore(t *testing.T) *httptest.Server {
	server := httptest.NewServer(&objectStore{objects: map[string]object{}})
	t.Cleanup(server.Close)
	return server
}

func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, there := s.objects[r.URL.Path]
	if r.Method == http.MethodGet {
		if !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", found.etag())
		w.Header().Set(storeMetadata, found.fence)
		_, _ = w.Write(found.content)
		return
	}
	match := r.Header.Get("If-Match")
	if r.Header.Get("If-None-Match") == "*" && there || match != "" && (!there || match != found.etag()) {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	s.objects[r.URL.Path] = object{content, r.Header.Get(storeMetadata)}
}

// A remote is a bucket of the objectStore at a URL.
type remote string

func (b remote) do(ctx context.Context, method, name string, content []byte, headers ...string) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, string(b)+"/"+name, bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusPreconditionFailed {
		err = fencing.ErrChanged
	}
	return response, body, err
}

func (b remote) Get(ctx context.Context, name string) (etag string, content []byte, err error) {
	response, content, err := b.do(ctx, http.MethodGet, name, nil)
	if err != nil || response.StatusCode == http.StatusNotFound {
		return "", nil, err
	}
	return response.Header.Get("ETag"), content, nil
}

func (b remote) Put(ctx context.Context, name, etag string, content []byte) error {
	condition := []string{"If-Match", etag}
	if etag == "" {
		condition = []string{"If-None-Match", "*"}
	}
	_, _, err := b.do(ctx, http.MethodPut, name, content, condition...)
	return err
}

// The ETag of a store like S3's does not tell two writes of one content apart.
// So an earlier holder that has read, and is paused, writes over what later ones
// wrote, if the number is in the metadata alone; and is refused if the content
// has it.
func TestETagOfTheContentAlone(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), remote(newObjectStore(t).URL)
	write := func(name, state string, number uint64, within bool, paused func()) error {
		content := []byte(state)
		if within {
			var err error
			content, err = json.Marshal(invoice{state, number})
			require.NoError(t, err)
		}
		return fencing.WriteObject(ctx, number, func(ctx context.Context) (string, uint64, error) {
			response, found, err := store.do(ctx, http.MethodGet, name, nil)
			if err != nil || response.StatusCode == http.StatusNotFound {
				return "", 0, err
			}
			var seen invoice
			if within {
				err = json.Unmarshal(found, &seen)
			} else {
				seen.Fence, err = fencing.Parse(response.Header.Get(storeMetadata))
			}
			return response.Header.Get("ETag"), seen.Fence, err
		}, func(ctx context.Context, etag string) error {
			paused()
			paused = func() {}
			condition := []string{"If-Match", etag}
			if etag == "" {
				condition = []string{"If-None-Match", "*"}
			}
			_, _, err := store.do(ctx, http.MethodPut, name, content,
				append(condition, storeMetadata, strconv.FormatUint(number, 10))...)
			return err
		})
	}
	for name, within := range map[string]bool{"metadata": false, "content": true} {
		require.NoError(t, write(name, "open", 1, within, func() {}))
		err := write(name, "late", 2, within, func() {
			require.NoError(t, write(name, "open", 3, within, func() {})) // what was there already
		})
		_, content, getErr := store.Get(ctx, name)
		require.NoError(t, getErr)
		if within {
			require.ErrorIs(t, err, fencing.ErrStale)
			require.NotContains(t, string(content), "late")
		} else {
			require.NoError(t, err, "docs/fencing.md says that this is accepted")
			require.Equal(t, "late", string(content))
		}
	}
}

// A new object is created by one of those that found none.
func TestObjectIsCreatedOnce(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), remote(newObjectStore(t).URL)
	require.NoError(t, store.Put(ctx, "7", "", []byte("open")))
	require.True(t, errors.Is(store.Put(ctx, "7", "", []byte("late")), fencing.ErrChanged))
}
