package multiplex

import "github.com/redmux/redmux/resp"

// texts are what nodes said when they refused a claim, for Claim.Told. A round
// that needs them keeps them, empty, for its next use.
//
// The goroutine that reads a node writes its text before it votes. The caller
// reads it after the decision, and only for a vote that counted. So no mutex is
// needed: later replies are other nodes'.
type texts [MaxNodes][]byte

// longestText bounds what is kept of a text (R26).
const longestText = 128

// keep copies a node's text, or the texts in an array, up to the bound.
func (t *texts) keep(node int, v resp.Value) {
	if v.Type() == resp.Array {
		for e := range v.Elements() {
			t.keep(node, e)
		}
		return
	}
	if text := v.Bytes(); v.Type() == resp.BulkString && len(text) <= longestText {
		t[node] = append(t[node][:0], text...)
	}
}

// empty forgets all texts.
func (t *texts) empty() {
	if t == nil {
		return
	}
	for i := range t {
		t[i] = t[i][:0]
	}
}

// tell passes on the texts of the nodes that refused, by the deciding word.
func (r *round) tell(word uint64, told func(node int, text []byte)) {
	for i := range r.texts {
		if refusedOf(word).Has(i) && len(r.texts[i]) > 0 {
			told(i, r.texts[i])
		}
	}
}
