package kv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// TestScanGivenUp: a scan ends soon after the call that it is for has been given up, in views and updates.
func TestScanGivenUp(t *testing.T) {
	t.Parallel()
	s, _, _ := open(t)
	const keys = 2000
	_, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
		for i := range keys {
			if _, err := tx.Set(fmt.Appendf(nil, "key%04d", i), nil, kv.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(ctx context.Context, fn func(tx *kv.Tx) error) error{
		"view": func(ctx context.Context, fn func(tx *kv.Tx) error) error {
			_, err := s.View(ctx, engine.Read{}, 0, fn)
			return err
		},
		"update": func(ctx context.Context, fn func(tx *kv.Tx) error) error {
			_, err := s.Update(ctx, 0, fn)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		err := run(ctx, func(tx *kv.Tx) error {
			n := 0
			defer func() {
				select {
				case done <- n:
				default: // engines may run it again
				}
			}()
			for _, err := range tx.Scan(nil, nil) {
				if err != nil {
					return err
				}
				if n++; n == 10 {
					cancel()
				}
			}
			return nil
		})
		if n := <-done; n >= keys || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %d keys, %v", name, n, err)
		}
		cancel()
		n := 0
		err = run(t.Context(), func(tx *kv.Tx) (err error) { // a Tx that is used again does not know the old context
			n = 0
			for _, err := range tx.ScanPrefixBack([]byte("key")) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil || n != keys {
			t.Errorf("%s after it: %d keys, %v", name, n, err)
		}
	}
}
