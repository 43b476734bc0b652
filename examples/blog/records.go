package blog

import (
	"time"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// Post is what a user writes.
type Post struct {
	record.Meta
	Title     string    `record:",required,min=1,max=120"`
	Body      string    `record:",required,min=1,max=20000"`
	Tags      []string  `record:",max=1000"`
	State     string    `record:",required,options=draft|public,default=draft"`
	Published time.Time `record:",hint='when it first became public'"`
	Author    string    `record:",required,omitzero,default=@auth.id"`
	By        string    `record:",omitzero,max=200,label=Name of the author"`
}

// Comment is what a user says about a post.
type Comment struct {
	record.Meta
	Post   string `record:",required,ref=posts,cascade"`
	Text   string `record:",required,min=1,max=2000"`
	Author string `record:",required,omitzero,default=@auth.id"`
	By     string `record:",omitzero,max=200,label=Name of the author"`
}

// Who may do what, on pages and over /api alike. What no rule allows is refused.
const (
	own       = `author = @auth.id`
	admin     = `@auth.roles ?= "admin"`
	public    = `state = "public" || ` + own + ` || ` + admin
	ofVisible = `post.state = "public" || post.author = @auth.id || ` + admin
	signed    = own + ` && by = @auth.name`
)

// The collections. Each order in which pages show records has an index.
var (
	Posts = record.Of[Post](schema.Collection{
		Name:    "posts",
		Rules:   schema.Rules{List: public, View: public, Create: signed, Update: own + ` && @new.author = author && @new.by = by`, Delete: own + ` || ` + admin, History: own},
		Indexes: []schema.Index{record.By("state", "-published"), record.By("author", "-created")},
	})
	Comments = record.Of[Comment](schema.Collection{
		Name:    "comments",
		Rules:   schema.Rules{List: ofVisible, View: ofVisible, Create: signed + ` && post.state = "public"`, Delete: own + ` || post.author = @auth.id || ` + admin},
		Indexes: []schema.Index{record.By("post", "created"), record.By("-created")},
	})
)
