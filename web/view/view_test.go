package view_test

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/web/view"
)

// folder makes a file system of paths and texts.
func folder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// load makes views of paths and texts.
func load(t testing.TB, files map[string]string) *view.Views {
	t.Helper()
	v, err := view.New(view.Options{FS: folder(files)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns a page without a layout.
func render(t testing.TB, v *view.Views, name string, locals map[string]any) string {
	t.Helper()
	var b bytes.Buffer
	if err := v.Fragment(&b, name, locals); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGotro is the example of GotRo's tutorial.
func TestGotro(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"post.z.html": `<h2>#{something that not exists}</h2>
<script>
  var title = '#{title}';
  var a_map = {/* map */};
  var an_arr = [/* arr */];
  var n = /*! n */;
  function f(){/* noop */}
</script>
`})
	got := render(t, v, "post", map[string]any{
		"title": "Post </script>", "map": map[string]any{"test1": 1, "test4": 4}, "arr": []int{1, 2, 3, 4}, "n": 5, "noop": 1,
	})
	want := `<h2>something that not exists</h2>
<script>
  var title = 'Post \u003c\/script\u003e';
  var a_map = {"test1":1,"test4":4};
  var an_arr = [1,2,3,4];
  var n =  5 ;
  function f(){ }
</script>
`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
