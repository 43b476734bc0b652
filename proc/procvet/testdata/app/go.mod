module example.com/app

go 1.26.7

require (
	example.com/other v0.0.0
	github.com/skerrydb/skerry v0.0.0
)

replace (
	example.com/other => ../other
	github.com/skerrydb/skerry => ../../../..
)
