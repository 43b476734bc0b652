package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// record is a session of the Redis site, stored as JSON in one string.
type record struct {
	User string
	Cart cart
	Seen int64
}

const (
	sessionLife = 24 * time.Hour
	cookieName  = "session"
)

// redisSite is a well-written program: one read of the session per request, and one write if it changed,
// through a client that batches commands.
type redisSite struct {
	client rueidis.Client
	pages  plain
}

func newRedis(addr string) (*site, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	pages, err := newPlain()
	if err != nil {
		return nil, err
	}
	s := &redisSite{client, pages}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /json", s.json)
	mux.HandleFunc("GET /shop", s.shop)
	mux.HandleFunc("POST /seen", s.seen)
	return &site{handler: mux, begin: s.begin, end: func() error { client.Close(); return nil }}, nil
}

func (s *redisSite) begin(ctx context.Context, user string) (string, error) {
	var b [32]byte
	rand.Read(b[:])
	token := base64.RawURLEncoding.EncodeToString(b[:])
	return cookieName + "=" + token, s.save(ctx, token, &record{User: user, Cart: newCart()})
}

func (s *redisSite) load(r *http.Request) (token string, rec *record, err error) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", nil, err
	}
	text, err := s.client.Do(r.Context(), s.client.B().Get().Key("session:"+c.Value).Build()).AsBytes()
	if err != nil {
		return "", nil, err
	}
	rec = new(record)
	return c.Value, rec, json.Unmarshal(text, rec)
}

func (s *redisSite) save(ctx context.Context, token string, rec *record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.client.Do(ctx, s.client.B().Set().Key("session:"+token).Value(rueidis.BinaryString(text)).Ex(sessionLife).Build()).Error()
}

func (s *redisSite) json(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(hello)
}

func (s *redisSite) shop(w http.ResponseWriter, r *http.Request) {
	_, rec, err := s.load(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var page bytes.Buffer
	err = s.pages.render(&page, map[string]any{
		"title": "Shop", "user": rec.User, "items": len(rec.Cart.Items), "products": products,
		"project_name": "bench", "assets": "", "debug_mode": false,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	_, _ = w.Write(page.Bytes())
}

func (s *redisSite) seen(w http.ResponseWriter, r *http.Request) {
	token, rec, err := s.load(r)
	if err == nil {
		rec.Seen = 1
		err = s.save(r.Context(), token, rec)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
