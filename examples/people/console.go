package people

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/value"
)

// maxAnswer bounds the bytes of an answer that Ask reads.
const maxAnswer = 16 << 20

// Ask sends a text of Gremlin to a server and returns the results as a console shows them. url is that of the server's
// listener for drivers: http://127.0.0.1:8182/gremlin. A text that the server refuses is an error with its message.
func Ask(ctx context.Context, url, text string) (results []string, err error) {
	body, err := json.Marshal(map[string]string{"gremlin": text})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", graphson.MimeJSON)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	answer, err := graphson.DecodeResponse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", resp.Status, raw)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", answer.Message)
	}
	for _, v := range value.Items(answer.Result) {
		results = append(results, value.Text(v))
	}
	return results, nil
}

// Transcript sends each text of the lesson to a server, and writes texts and results to w, until one is refused.
func Transcript(ctx context.Context, w io.Writer, url string) error {
	for _, s := range Lesson() {
		results, err := Ask(ctx, url, s.Text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Text, err)
		}
		s.write(w, results)
	}
	return nil
}

// write writes a step with its results, as a console shows them.
func (s Step) write(w io.Writer, results []string) {
	if s.Title != "" {
		fmt.Fprintf(w, "// %s\n", s.Title)
	}
	fmt.Fprintf(w, "gremlin> %s\n", s.Text)
	for _, r := range results {
		fmt.Fprintf(w, "==>%s\n", r)
	}
}
