//go:build !race

package redistest

const raceful = false
