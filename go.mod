module github.com/skerrydb/skerry

go 1.26
