package fencing_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// A holder that was paused sends its request when another has had the lock. The
// service refuses it.
func Example() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.Fenced = true
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	var row struct { // stands for a row of a database, which compares in its own transaction
		sync.Mutex
		fence uint64
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, err := fencing.FromHeader(r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		row.Lock()
		defer row.Unlock()
		if number < row.fence {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		row.fence = number // and what the request writes
	}))
	defer server.Close()

	// request returns a request of a holder of the lock.
	request := func() (r *http.Request, err error) {
		err = client.Do(context.Background(), "invoice:7", 10*time.Second, func(ctx context.Context) error {
			if r, err = http.NewRequestWithContext(ctx, http.MethodPut, server.URL, nil); err != nil {
				return err
			}
			return fencing.SetHeader(r)
		})
		return r, err
	}
	first, err := request()
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := request()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []*http.Request{second, first, second} {
		response, err := http.DefaultClient.Do(r.WithContext(context.Background())) // sent late
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 200 OK
	// 412 Precondition Failed
	// 200 OK
}
