package history

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every way in which an attempt and a lock can end, in the form that Knossos
// reads.
func TestEDN(t *testing.T) {
	var d EDN
	for _, e := range []Event{
		{T: 1, Client: 0, Attempt: 1, Ev: Start},
		{T: 2, Client: 1, Attempt: 1, Ev: Start},
		{T: 3, Client: 0, Attempt: 1, Ev: Grant, Until: 100},
		{T: 4, Client: 1, Attempt: 1, Ev: Held},
		{T: 50, Client: 0, Attempt: 1, Ev: Extend, Until: 120},
		{T: 60, Client: 0, Attempt: 1, Ev: Release},
		{T: 61, Client: 0, Attempt: 1, Ev: Released},
		{T: 62, Client: 1, Attempt: 2, Ev: Start}, // is released too late
		{T: 63, Client: 1, Attempt: 2, Ev: Grant, Until: 80},
		{T: 64, Client: 2, Attempt: 1, Ev: Start}, // comes too late
		{T: 90, Client: 1, Attempt: 2, Ev: Release},
		{T: 91, Client: 2, Attempt: 1, Ev: Grant, Until: 91},
		{T: 92, Client: 3, Attempt: 1, Ev: Start}, // dies as the holder
		{T: 93, Client: 3, Attempt: 1, Ev: Grant, Until: 99},
		{T: 100, Client: 4, Attempt: 1, Ev: Start}, // dies without an answer
	} {
		e.Resource = "r"
		d.Add(e)
	}
	require.Equal(t, []string{"r"}, d.Resources())
	var text strings.Builder
	require.NoError(t, d.Write(&text, "r"))
	require.Equal(t, `{:process 0, :type :invoke, :f :acquire, :value nil, :time 1}
{:process 1, :type :invoke, :f :acquire, :value nil, :time 2}
{:process 0, :type :ok, :f :acquire, :value nil, :time 3}
{:process 1, :type :fail, :f :acquire, :value nil, :time 4}
{:process 0, :type :invoke, :f :release, :value nil, :time 60}
{:process 0, :type :ok, :f :release, :value nil, :time 60}
{:process 2, :type :invoke, :f :acquire, :value nil, :time 62}
{:process 2, :type :ok, :f :acquire, :value nil, :time 63}
{:process 3, :type :invoke, :f :acquire, :value nil, :time 64}
{:process 2, :type :invoke, :f :release, :value nil, :time 80}
{:process 2, :type :ok, :f :release, :value nil, :time 80}
{:process 3, :type :fail, :f :acquire, :value nil, :time 91}
{:process 4, :type :invoke, :f :acquire, :value nil, :time 92}
{:process 4, :type :ok, :f :acquire, :value nil, :time 93}
{:process 4, :type :invoke, :f :release, :value nil, :time 99}
{:process 4, :type :ok, :f :release, :value nil, :time 99}
{:process 5, :type :invoke, :f :acquire, :value nil, :time 100}
`, text.String())
}

// edn is the EDN of a history made by hand, of the resource "k".
func edn(t *testing.T, text string) (operations, queue string) {
	t.Helper()
	var d EDN
	for _, e := range script(t, text) {
		d.Add(e)
	}
	var o, q strings.Builder
	require.NoError(t, d.Write(&o, "k"))
	require.NoError(t, d.WriteQueue(&q, "k"))
	require.Equal(t, q.Len() > 0, d.Queues("k"))
	return o.String(), q.String()
}

// Permits, as the model of a semaphore has them.
func TestEDNOfPermits(t *testing.T) {
	operations, queue := edn(t, "1 a1 start for permit of 2; 2 b1 start for permit of 2; 3 a1 grant 50; 4 b1 held; 9 a1 release")
	require.Equal(t, `{:process 0, :type :invoke, :f :acquire, :value {:client "0.0", :permits 2}, :time 1}
{:process 1, :type :invoke, :f :acquire, :value {:client "0.1", :permits 2}, :time 2}
{:process 0, :type :ok, :f :acquire, :value {:client "0.0", :permits 2}, :time 3}
{:process 1, :type :fail, :f :acquire, :value {:client "0.1", :permits 2}, :time 4}
{:process 0, :type :invoke, :f :release, :value {:client "0.0", :permits 2}, :time 9}
{:process 0, :type :ok, :f :release, :value {:client "0.0", :permits 2}, :time 9}
`, operations)
	require.Empty(t, queue)
}

// A reader that is a writer for a while, a writer that becomes a reader at one
// moment, and one that cannot.
func TestEDNOfReadersAndWriters(t *testing.T) {
	operations, _ := edn(t, `1 a1 start for read; 2 a1 grant 90; 3 a2 start for write from 1; 4 a2 grant 90; 5 a2 release; 6 a1 release;
		7 b1 start for write; 8 b1 grant 90; 9 b1 release; 9 b2 start for read from 1; 11 b2 grant 90; 12 b2 release;
		13 b3 start for write; 14 b3 grant 90; 15 b3 release; 15 b4 start for read from 3; 16 b4 held`)
	require.Equal(t, `{:process 0, :type :invoke, :f :acquire, :value {:client "0.0", :mode :read}, :time 1}
{:process 0, :type :ok, :f :acquire, :value {:client "0.0", :mode :read}, :time 2}
{:process 1, :type :invoke, :f :acquire, :value {:client "0.0", :mode :write}, :time 3}
{:process 1, :type :ok, :f :acquire, :value {:client "0.0", :mode :write}, :time 4}
{:process 1, :type :invoke, :f :release, :value {:client "0.0", :mode :write}, :time 5}
{:process 1, :type :ok, :f :release, :value {:client "0.0", :mode :write}, :time 5}
{:process 0, :type :invoke, :f :release, :value {:client "0.0", :mode :read}, :time 6}
{:process 0, :type :ok, :f :release, :value {:client "0.0", :mode :read}, :time 6}
{:process 2, :type :invoke, :f :acquire, :value {:client "0.1", :mode :write}, :time 7}
{:process 2, :type :ok, :f :acquire, :value {:client "0.1", :mode :write}, :time 8}
{:process 3, :type :invoke, :f :downgrade, :value {:client "0.1", :mode :read}, :time 9}
{:process 3, :type :ok, :f :downgrade, :value {:client "0.1", :mode :read}, :time 11}
{:process 3, :type :invoke, :f :release, :value {:client "0.1", :mode :read}, :time 12}
{:process 3, :type :ok, :f :release, :value {:client "0.1", :mode :read}, :time 12}
{:process 4, :type :invoke, :f :acquire, :value {:client "0.1", :mode :write}, :time 13}
{:process 4, :type :ok, :f :acquire, :value {:client "0.1", :mode :write}, :time 14}
{:process 4, :type :invoke, :f :release, :value {:client "0.1", :mode :write}, :time 15}
{:process 4, :type :ok, :f :release, :value {:client "0.1", :mode :write}, :time 15}
{:process 5, :type :invoke, :f :acquire, :value {:client "0.1", :mode :read}, :time 15}
{:process 5, :type :fail, :f :acquire, :value {:client "0.1", :mode :read}, :time 16}
`, operations)
}

// The lock of a queue is a mutex, and its order is that of a queue, but for
// callers that others may overtake.
func TestEDNOfQueues(t *testing.T) {
	operations, queue := edn(t, `1 a1 start for fair; 2 a1 grant 20; 3 b1 start for fair; 4 b1 queued 20; 5 c1 start for fair; 6 c1 queued 9;
		10 a1 release; 15 b1 queued 40; 18 c1 queued 60; 21 b1 grant 30; 22 b1 release; 23 c1 grant 90; 24 d1 start for fair; 25 d1 queued 30; 40 d1 held`)
	require.Contains(t, operations, "{:process 0, :type :ok, :f :acquire, :value nil, :time 2}\n")
	require.Equal(t, `{:process 0, :type :invoke, :f :enqueue, :value 0, :time 1}
{:process 1, :type :invoke, :f :dequeue, :value nil, :time 1}
{:process 0, :type :ok, :f :enqueue, :value 0, :time 2}
{:process 1, :type :ok, :f :dequeue, :value 0, :time 2}
{:process 2, :type :invoke, :f :enqueue, :value 1, :time 3}
{:process 2, :type :ok, :f :enqueue, :value 1, :time 4}
{:process 3, :type :invoke, :f :dequeue, :value nil, :time 15}
{:process 3, :type :ok, :f :dequeue, :value 1, :time 21}
`, queue)
}
