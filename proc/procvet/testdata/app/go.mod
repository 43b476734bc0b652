module example.com/app

go 1.26.0

require github.com/skerrydb/skerry v0.0.0

replace github.com/skerrydb/skerry => ../../../..
