package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// idempotent makes requests with the same Idempotency-Key take effect once, in
// whichever process they arrive. The lock keeps two of them apart, and answers
// contains the response for later ones: the lock alone does not know that the
// work was done before.
//
// The handler works under the request's context, which here also ends when the
// lock is lost. Keys come from outside: they are separated by user, and
// bounded.
func idempotent(client *redlock.Client, answers answerStore, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		key := r.Header.Get("Idempotency-Key")
		if key == "" || len(key) > 200 || len(user) > 200 {
			http.Error(w, "an Idempotency-Key of 1 to 200 bytes is needed", http.StatusBadRequest)
			return
		}
		// The length of the first part separates "a" and "b:c" from "a:b" and
		// "c".
		resource := fmt.Sprintf("request:%d:%s:%s", len(user), user, key)
		patience, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		hold, err := client.Lock(resource).TryHold(patience, redlock.HoldOptions{TTL: 10 * time.Second})
		switch {
		case errors.Is(err, redlock.ErrHeld):
			http.Error(w, "this request is being worked on", http.StatusConflict)
			return
		case err != nil: // such as no quorum: without the lock nothing is done
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the lock cannot be acquired", http.StatusServiceUnavailable)
			return
		}
		defer hold.Release(context.WithoutCancel(r.Context()))
		if done, ok := answers.get(resource); ok { // checked under the lock
			w.Header().Set("Idempotency-Replayed", "true")
			fmt.Fprint(w, done)
			return
		}

		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		defer context.AfterFunc(hold.Context(), func() { end(context.Cause(hold.Context())) })()
		recorder := httptest.NewRecorder() // a program has one of its own
		next.ServeHTTP(recorder, r.WithContext(ctx))
		if recorder.Code < 300 && hold.Err() == nil {
			answers.put(resource, recorder.Body.String())
		}
		w.WriteHeader(recorder.Code)
		fmt.Fprint(w, recorder.Body.String())
	})
}

// answerStore stands for a table in the database that the work writes to.
type answerStore struct{ *sync.Map }

func (s answerStore) get(key string) (string, bool) {
	answer, ok := s.Load(key)
	text, _ := answer.(string)
	return text, ok
}

func (s answerStore) put(key, answer string) { s.Store(key, answer) }

// Middleware of net/http by idempotency key: a payment that is sent twice is
// made once, even if both requests arrive at the same time at different
// processes.
func Example_idempotencyKey() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	working, goOn := make(chan struct{}), make(chan struct{})
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(working) // a second payment would panic
		<-goOn
		fmt.Fprint(w, "paid")
	})
	server := httptest.NewServer(idempotent(client, answerStore{new(sync.Map)}, pay))
	defer server.Close()
	post := func() string {
		request, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("10 EUR"))
		if err != nil {
			return err.Error()
		}
		request.Header.Set("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		return strings.TrimSpace(response.Status + " " + response.Header.Get("Idempotency-Replayed"))
	}

	first := make(chan string)
	go func() { first <- post() }()
	<-working
	fmt.Println("meanwhile:", post())
	close(goOn)
	fmt.Println("first:", <-first)
	fmt.Println("again:", post())
	// Output:
	// meanwhile: 409 Conflict
	// first: 200 OK
	// again: 200 OK true
}
