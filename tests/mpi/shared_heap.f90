! hikyaku run --shared-heap: arrays of a Fortran program. It calls MPI through the C interface.
program shared_heap
   use, intrinsic :: iso_c_binding
   implicit none

   integer, parameter :: n = 1000000
   integer(c_intptr_t), parameter :: world = int(z'101', c_intptr_t), doubles = int(z'214', c_intptr_t)

   interface
      integer(c_int) function mpi_init(count, words) bind(c, name='MPI_Init')
         import
         type(c_ptr), value :: count, words
      end function
      integer(c_int) function mpi_finalize() bind(c, name='MPI_Finalize')
         import
      end function
      integer(c_int) function mpi_comm_rank(comm, rank) bind(c, name='MPI_Comm_rank')
         import
         integer(c_intptr_t), value :: comm
         integer(c_int) :: rank
      end function
      integer(c_int) function mpi_sendrecv(out, out_count, out_type, to, out_tag, &
                                           in, in_count, in_type, from, in_tag, comm, status) &
         bind(c, name='MPI_Sendrecv')
         import
         real(c_double), intent(in) :: out(*)
         real(c_double), intent(out) :: in(*)
         integer(c_int), value :: out_count, to, out_tag, in_count, from, in_tag
         integer(c_intptr_t), value :: out_type, in_type, comm
         type(c_ptr), value :: status
      end function
   end interface

   type cells
      real(c_double), allocatable :: values(:, :)
   end type

   real(c_double), allocatable, target :: a(:), b(:), moved(:)
   real(c_double), pointer :: section(:)
   character(:), allocatable, target :: text
   type(cells) :: grid, other
   integer(c_int) :: rank
   integer :: i

   call check(mpi_init(c_null_ptr, c_null_ptr) == 0, 'MPI_Init')
   call check(mpi_comm_rank(world, rank) == 0, 'MPI_Comm_rank')

   allocate (a(n), source=[(real(i + rank, c_double), i=1, n)])
   call check(is_shared(c_loc(a)), 'an allocated array is shared')
   b = a
   call check(is_shared(c_loc(b)) .and. all(b == a), 'an assigned array')
   b = [a, 2*a]
   call check(is_shared(c_loc(b)) .and. size(b) == 2*n .and. b(2*n) == 2*a(n), 'one that grows')
   b = b(1:10)
   call check(.not. is_shared(c_loc(b)) .and. b(10) == a(10), 'one that shrinks')
   call move_alloc(a, moved)
   call check(.not. allocated(a) .and. is_shared(c_loc(moved)), 'a moved array')
   call move_alloc(moved, a)
   text = repeat('text', 50000)
   text = text//text
   call check(is_shared(c_loc(text)) .and. text(399997:) == 'text', 'a text')
   allocate (grid%values(1000, 1000))
   grid%values = reshape(a, [1000, 1000])
   other = grid
   other%values = transpose(other%values) + matmul(other%values(:, 1:2), other%values(1:2, :))*0
   call check(other%values(3, 7) == grid%values(7, 3), 'arrays of a structure, and temporary ones')
   deallocate (grid%values)
   call check(automatic(200000) == 200000, 'an automatic array')

   b = 0*a
   do i = 1, 5
      call exchange(a, b, n)
      call check(all(b == a + 1 - 2*rank), 'a message')
   end do
   ! A section is copied into a temporary array, and back.
   b = 0
   call exchange(a(1:n:2), b(1:n:2), n/2)
   call check(all(b(1:n:2) == a(1:n:2) + 1 - 2*rank) .and. all(b(2:n:2) == 0), 'a section')
   section => a(2:n:2)
   call exchange(section, b, n/2)
   call check(all(b(1:n/2) == a(2:n:2) + 1 - 2*rank), 'a section by a pointer')

   call check(mpi_finalize() == 0, 'MPI_Finalize')
   deallocate (a, b)

contains

   ! With the other one of two ranks.
   subroutine exchange(out, in, count)
      real(c_double), intent(in) :: out(:)
      real(c_double), intent(inout) :: in(:)
      integer, intent(in) :: count
      call check(mpi_sendrecv(out, count, doubles, 1 - rank, 0, in, count, doubles, 1 - rank, 0, &
                              world, c_null_ptr) == 0, 'MPI_Sendrecv')
   end subroutine

   function automatic(length) result(found)
      integer, intent(in) :: length
      integer :: work(length), found
      work = 1
      found = sum(work)
   end function

   subroutine check(holds, what)
      logical, intent(in) :: holds
      character(*), intent(in) :: what
      if (.not. holds) then
         write (*, *) 'rank', rank, ': not so: ', what
         error stop 1
      end if
   end subroutine

   ! Whether an address is in the job's memory, by what the system says of it.
   logical function is_shared(address)
      type(c_ptr), intent(in) :: address
      character(512) :: line
      integer(c_intptr_t) :: from, to, at
      integer :: unit, status, dash
      at = transfer(address, at)
      is_shared = .false.
      open (newunit=unit, file='/proc/self/maps', action='read', status='old')
      do
         read (unit, '(a)', iostat=status) line
         if (status /= 0) exit
         dash = index(line, '-')
         read (line(1:dash - 1), '(z16)') from
         read (line(dash + 1:index(line, ' ') - 1), '(z16)') to
         if (from <= at .and. at < to) is_shared = index(line, '/memfd:hikyaku') > 0
      end do
      close (unit)
   end function
end program
