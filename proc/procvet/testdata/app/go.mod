module example.com/app

go 1.26.0

require (
	example.com/other v0.0.0
	github.com/skerrydb/skerry v0.0.0
)

replace (
	example.com/other => ../other
	github.com/skerrydb/skerry => ../../../..
)
